package sight

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

const (
	// completionPatience is the timeout for all requests in one completion. If it expires, there are no
	// suggestions.
	completionPatience = 3 * time.Second

	mostCompletions = 500
)

// Completer suggests arguments. On errors it suggests nothing.
type Completer struct {
	Attach    *attach.Flags   // selects the process and the cluster
	Replay    *playback.Flags // nil if the command has no --replay
	Namespace *string         // of the objects
	Slash     bool            // accept TYPE/NAME
	Second    bool            // accept NAME as the second argument
	More      bool            // all arguments are completed like the first
}

// Arguments implements cobra.Command.ValidArgsFunction.
func (c *Completer) Arguments(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := Completing(cmd)
	defer cancel()
	typ, name, named := attach.CutName(text)
	var found []string
	switch {
	case len(args) == 1 && c.Second && !strings.Contains(args[0], "/"):
		found = c.names(ctx, args[0], text)
	case len(args) > 0 && !c.More:
	case named && c.Slash:
		for _, one := range c.names(ctx, typ, name) {
			found = append(found, typ+"/"+one)
		}
	case !named:
		before := text[:strings.LastIndex(text, ",")+1] // the types already entered
		for _, one := range c.types(ctx) {
			found = append(found, before+one)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// Completing returns the context for one completion.
func Completing(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completionPatience)
}

// types returns the watchable resources, or the informers of a process or recording.
func (c *Completer) types(ctx context.Context) (names []string) {
	switch {
	case c.Attach.To != "":
		for _, i := range c.informers(ctx) {
			names = append(names, i.Reflector.Resource)
		}
		return terminal.Completions(names)
	case c.replays():
		for _, q := range c.requests() {
			names = append(names, object.ResourceName(q.Resource()))
		}
		slices.Sort(names)
		return terminal.Completions(slices.Compact(names))
	}
	client := c.client()
	if client == nil {
		return nil
	}
	defer client.CloseIdleConnections()
	mappings, _ := client.Mapper().Mappings(ctx) // on errors, use the groups that were discovered
	for _, m := range mappings {
		if cluster.CanWatch(m) {
			names = append(names, object.ResourceName(m.Resource))
		}
	}
	return terminal.Completions(names)
}

// Queues completes the names of a process's controllers and queues, in arguments or flags.
func (c *Completer) Queues(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	ctx, cancel := Completing(cmd)
	defer cancel()
	if status := c.status(ctx); status != nil {
		for _, one := range status.Controllers {
			names = append(names, one.Name)
		}
		for _, one := range status.Queues {
			names = append(names, one.Name)
		}
	}
	return terminal.Completions(names), cobra.ShellCompDirectiveNoFileComp
}

// informers returns the process's informers, or none on an error.
func (c *Completer) informers(ctx context.Context) []debug.Informer {
	if status := c.status(ctx); status != nil {
		return status.Informers
	}
	return nil
}

// status returns the process's status, or nil if no process is attached or an error occurs.
func (c *Completer) status(ctx context.Context) *debug.Status {
	if c.Attach.To == "" {
		return nil
	}
	process, _, err := c.Attach.Attach(terminal.Quiet())
	if err != nil {
		return nil
	}
	status, err := process.Status(ctx)
	if err != nil {
		return nil
	}
	return status
}

// replays reports whether --replay is used.
func (c *Completer) replays() bool { return c.Replay != nil && c.Replay.File != "" }

// requests returns the recording's requests, or none on an error.
func (c *Completer) requests() []*recording.Request {
	file, err := recording.Open(c.Replay.File)
	if err != nil {
		return nil
	}
	defer file.Close()
	return file.Requests
}

// names returns the names of a type's objects. It returns none for a recording, which would have to be
// replayed first.
func (c *Completer) names(ctx context.Context, typ, begin string) (names []string) {
	if c.replays() {
		return nil
	}
	if c.Attach.To != "" {
		process, _, err := c.Attach.Attach(terminal.Quiet())
		if err != nil {
			return nil
		}
		objects, err := process.Objects(ctx, debug.Which{Informer: typ}, debug.Page{Namespace: *c.Namespace, Search: begin, Limit: mostCompletions})
		if err != nil {
			return nil
		}
		for _, h := range objects.Heads {
			names = append(names, h.Name)
		}
		return terminal.Completions(names)
	}
	arg, err := object.ParseResourceArg(typ)
	client := c.client()
	if err != nil || client == nil {
		return nil
	}
	defer client.CloseIdleConnections()
	m, err := client.Mapper().MappingForResource(ctx, arg)
	if err != nil {
		return nil
	}
	namespace := ""
	if m.Namespaced {
		cfg, err := config.LoadWith(c.load())
		if err != nil {
			return nil
		}
		namespace = cfg.Namespace
	}
	return namesOf(ctx, client, m, namespace)
}

// namesOf returns the names in one page of metadata.
func namesOf(ctx context.Context, client *rest.Client, m discovery.Mapping, namespace string) (names []string) {
	list := rest.ResourceForMapping[*metav1.PartialObjectMetadata](client, m).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: mostCompletions})
	for o, err := range list.Items {
		if err != nil || len(names) == mostCompletions {
			break
		}
		names = append(names, o.Name)
	}
	return terminal.Completions(names)
}

func (c *Completer) load() config.LoadOptions {
	load := c.Attach.Connect.Load
	load.Namespace, load.Logger = *c.Namespace, slog.New(slog.DiscardHandler)
	return load
}

// client returns a client for the cluster, or nil on an error.
func (c *Completer) client() *rest.Client {
	cfg, err := config.LoadWith(c.load())
	if err != nil {
		return nil
	}
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return nil
	}
	return client
}

// Register registers completion for a command's arguments and its --namespace flag.
func (c *Completer) Register(cmd *cobra.Command) {
	cmd.ValidArgsFunction = c.Arguments
	// It fails only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := Completing(cmd)
		defer cancel()
		return c.namespaces(ctx), cobra.ShellCompDirectiveNoFileComp
	})
}

// namespaces returns the namespaces in the cluster, or those of the informers in a process or recording.
// For an attached pod, it uses the cluster's.
func (c *Completer) namespaces(ctx context.Context) (names []string) {
	switch {
	case c.Attach.To != "" && !c.Attach.InPod():
		for _, i := range c.informers(ctx) {
			scopes, _ := Scopes(&i) // skip informers without a parsable scope
			for _, one := range scopes {
				names = append(names, one.Namespace)
			}
		}
	case c.replays():
		for _, q := range c.requests() {
			names = append(names, q.Namespace())
		}
	default:
		cluster := Completer{Attach: &attach.Flags{Connect: c.Attach.Connect}, Namespace: new(string)}
		return cluster.names(ctx, "namespaces", "")
	}
	slices.Sort(names)
	return terminal.Completions(slices.Compact(names))
}
