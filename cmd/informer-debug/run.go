package main

import (
	"cmp"
	"context"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/check"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/churn"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cost"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/doctor"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/get"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/manual"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/shards"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/view"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/wait"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/why"
)

// surroundings contains everything a run needs from its process.
type surroundings struct {
	terminal.Streams
	program string // name it was invoked under: its own, or a kubectl plugin's

	// listen opens the endpoint for demo's server.
	listen func(*apiservertest.Server) (*apiservertest.Endpoint, error)

	// listenPage opens the listener for demo's debug page. If nil, there is no page.
	listenPage func() (net.Listener, error)
}

// pluginName is how users invoke the program as a kubectl plugin.
const pluginName = "kubectl informer"

// plugin reports whether the program was started by kubectl.
func (s surroundings) plugin() bool { return strings.HasPrefix(filepath.Base(s.program), "kubectl-") }

// called returns the shell command for running the program.
func (s surroundings) called() string {
	if s.plugin() {
		return pluginName
	}
	return cmp.Or(s.program, "informer-debug")
}

// run runs the whole program and returns the exit code. It stops gracefully when ctx is done.
func run(ctx context.Context, args []string, s surroundings) int {
	root := newRoot(s)
	root.SetArgs(append([]string{}, args...))
	cmd, err := root.ExecuteContextC(ctx)
	return exit.Report(s.Err, cmd, err)
}

func newRoot(s surroundings) *cobra.Command {
	root := &cobra.Command{
		Use:   "informer-debug",
		Short: "See what an informer sees",
		Long: `informer-debug shows what an informer sees: each change of a resource as it
arrives, how long it took from the network to a handler, and how the reflector
handles failures. It also inspects running programs: why an object has not been
reconciled, and what their caches contain.

` + exit.Help,
		Example: `  informer-debug watch pods -A
  informer-debug why pods/web-1 -n shop --attach http://localhost:6060
  informer-debug demo`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if s.plugin() {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: pluginName}
	}
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.AddCommand(
		view.WatchCommand(s.Streams),
		why.Command(s.Streams),
		get.Command(s.Streams),
		newTop(s.Streams),
		newServe(s.Streams),
		check.Command(s.Streams),
		wait.Command(s.Streams),
		doctor.Command(s.Streams),
		shards.Command(s.Streams),
		churn.Command(s.Streams),
		cost.Command(s.Streams),
		newRecord(s.Streams),
		view.ReplayCommand(s.Streams),
		newSnapshot(s.Streams),
		newDemo(s),
		newVersion(),
		manual.Command(),
	)
	return root
}
