package main

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/top"
)

func newTop(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top [TYPE]",
		Short: "Watch informers, handlers, controllers and keys on a screen",
		Long: `top shows a screen that refreshes every second: informers with their rates, how far behind
they are and how much memory they use; controllers and their queues; the busiest keys; and how
long each stage takes. Enter opens one informer with its handlers and objects, or one key with
its history. ? lists the keyboard shortcuts. A screen of 80x24 is enough, and no colour is needed.

` + sight.Help + `
` + playback.Help + `

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug top --attach http://localhost:6060
  informer-debug top deploy,rs,po -A`,
		Args: exit.Args(0, 1),
	}
	look.Add(cmd)
	look.Replay.Add(cmd, "1")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "time between refreshes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := look.Check(); err != nil {
			return err
		}
		if interval < 100*time.Millisecond {
			return exit.Usage("--interval must be at least 100ms, got %s", interval)
		}
		types := ""
		if len(args) > 0 {
			types = args[0]
		}
		return runTop(cmd.Context(), s, &look, types, interval)
	}
	return cmd
}

// runTop shows the screen until the user quits.
func runTop(ctx context.Context, s terminal.Streams, look *sight.Flags, types string, interval time.Duration) error {
	if !s.OutTerminal {
		return exit.Usage("top requires a terminal: use \"informer-debug get\" to write to files and pipes")
	}
	messages := &untilScreen{to: s.Err}
	s.Err = messages
	v, err := look.Open(ctx, s, types, nil)
	if err != nil {
		return err
	}
	defer v.Close()
	// Report an unreachable process now, because the screen would hide the error.
	if _, err := v.Process.Status(ctx); err != nil {
		return exit.UnlessLeft(v.Unanswered(ctx, err))
	}
	messages.shown.Store(true)
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err, Hint: "top does not support this terminal: check TERM"}
	}
	defer screen.Fini()
	top.Run(ctx, screen, v.Process, top.Options{Called: v.Called, Interval: interval})
	return nil
}

// untilScreen is a writer that discards everything once the screen is shown, since that is on the same terminal.
// The screen shows errors itself.
type untilScreen struct {
	to    io.Writer
	shown atomic.Bool
}

func (u *untilScreen) Write(text []byte) (int, error) {
	if u.shown.Load() {
		return len(text), nil
	}
	return u.to.Write(text)
}
