package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/page"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/serving"
)

func newServe(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	var listen string
	cmd := &cobra.Command{
		Use:   "serve [TYPE...]",
		Short: "Show informers as a page in your browser",
		Long: `serve starts a web page on this machine that shows informers at work: what they cache, what
their handlers and controllers are doing, and the history of each object. It prints the address.
By default, the page can only be reached from this machine; see --listen.

` + sight.Help + `
` + playback.Help + `

With --attach, it shows that process, with read-only access.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug serve pods,deploy -A
  informer-debug serve --attach http://localhost:6060
  informer-debug serve --attach pod/janitor-0:6060 -n ops --listen 127.0.0.1:8000`,
	}
	look.Add(cmd)
	look.Replay.Add(cmd, "1")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := look.Check(); err != nil {
			return err
		}
		if look.To != "" && len(args) > 0 {
			return exit.Usage("%s: with --attach the process decides which informers to show; omit the type", args[0])
		}
		return runServe(cmd.Context(), s, &look, strings.Join(args, ","), listen)
	}
	return cmd
}

func runServe(ctx context.Context, s terminal.Streams, look *sight.Flags, types, listen string) error {
	c := terminal.NewConsole(s, false)
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return exit.Usage("--listen %q: want HOST:PORT, such as 127.0.0.1:8000", listen)
	}
	v, err := look.Open(ctx, s, types, c)
	if err != nil {
		return err
	}
	defer v.Close()
	if _, err := v.Process.Status(ctx); err != nil {
		return exit.UnlessLeft(v.Unanswered(ctx, err))
	}
	server, err := serving.New(serving.Options{Name: "page", Address: listen, Handler: page.OnlyFor(host, page.Of(v.Process)), Logger: c.Logger(), Drain: time.Second})
	if err != nil {
		return exit.Usage("--listen: %w", err)
	}
	if err := server.Listen(); err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	at := server.Addr().(*net.TCPAddr)
	if !at.IP.IsLoopback() {
		c.Trouble(time.Now(), "anyone who can reach %s can read this page", at)
	}
	if _, err := fmt.Fprintf(s.Out, "%s at http://%s%s\n", terminal.OneLine(v.Called), at, debug.Path); err != nil {
		server.Close()
		return exit.Unwritten(err)
	}
	if err := server.Run(ctx); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	return nil
}
