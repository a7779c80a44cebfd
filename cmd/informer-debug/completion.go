package main

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
	// completionPatience bounds everything that is asked for one completion. A server that does
	// not answer soon completes nothing.
	completionPatience = 3 * time.Second

	mostCompletions = 500
)

// completer suggests arguments, and is silent where it knows none.
type completer struct {
	attach    *attach.Flags
	replay    *playback.Flags // nil where there is no such flag
	namespace *string
	slash     bool // names follow TYPE/
	second    bool // names follow TYPE as an argument of their own
	more      bool // further arguments are like the first one
}

// arguments is for cobra.Command.ValidArgsFunction.
func (c *completer) arguments(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := completing(cmd)
	defer cancel()
	typ, name, named := strings.Cut(text, "/")
	var found []string
	switch {
	case len(args) == 1 && c.second && !strings.Contains(args[0], "/"):
		found = c.names(ctx, args[0], text)
	case len(args) > 0 && !c.more:
	case named && c.slash:
		for _, one := range c.names(ctx, typ, name) {
			found = append(found, typ+"/"+one)
		}
	case !named:
		before := text[:strings.LastIndex(text, ",")+1] // of several TYPEs
		for _, one := range c.types(ctx) {
			found = append(found, before+one)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completing is the context of one completion.
func completing(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completionPatience)
}

// types are those that can be watched, the informers of a process, or what a recording has.
func (c *completer) types(ctx context.Context) (names []string) {
	switch {
	case c.attach.To != "":
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
	mappings, _ := client.Mapper().Mappings(ctx) // an error: some groups are missing, the rest will do
	for _, m := range mappings {
		if cluster.CanWatch(m) {
			names = append(names, object.ResourceName(m.Resource))
		}
	}
	return terminal.Completions(names)
}

// informers are those of a process, none where it cannot be asked.
func (c *completer) informers(ctx context.Context) []debug.Informer {
	process, _, err := c.attach.Attach(terminal.Quiet())
	if err != nil {
		return nil
	}
	status, err := process.Status(ctx)
	if err != nil {
		return nil
	}
	return status.Informers
}

// replays reports whether it is about a recording.
func (c *completer) replays() bool { return c.replay != nil && c.replay.File != "" }

// requests are those of a recording, none where it cannot be read.
func (c *completer) requests() []*recording.Request {
	file, err := recording.Open(c.replay.File)
	if err != nil {
		return nil
	}
	defer file.Close()
	return file.Requests
}

// names are those of the objects of a TYPE. Those of a recording are not known until it has
// been played.
func (c *completer) names(ctx context.Context, typ, begin string) (names []string) {
	if c.replays() {
		return nil
	}
	if c.attach.To != "" {
		process, _, err := c.attach.Attach(terminal.Quiet())
		if err != nil {
			return nil
		}
		objects, err := process.Objects(ctx, debug.Which{Informer: typ}, debug.Page{Namespace: *c.namespace, Search: begin, Limit: mostCompletions})
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

// namesOf lists metadata, one page of it.
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

func (c *completer) load() config.LoadOptions {
	load := c.attach.Connect.Load
	load.Namespace, load.Logger = *c.namespace, slog.New(slog.DiscardHandler)
	return load
}

// client is that of the cluster, nil where there is none.
func (c *completer) client() *rest.Client {
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

// register completes the arguments of a command, and its flags that name namespaces.
func (c *completer) register(cmd *cobra.Command) {
	cmd.ValidArgsFunction = c.arguments
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := completing(cmd)
		defer cancel()
		return c.namespaces(ctx), cobra.ShellCompDirectiveNoFileComp
	})
}

// namespaces are those of the cluster, or those that the informers of a process or of a
// recording have for themselves. A pod is on the cluster, and in a namespace of it.
func (c *completer) namespaces(ctx context.Context) (names []string) {
	switch {
	case c.attach.To != "" && !strings.HasPrefix(c.attach.To, "pod/"):
		for _, i := range c.informers(ctx) {
			scopes, _ := scopesOf(&i) // a name that does not tell its scope names none
			for _, one := range scopes {
				names = append(names, one.namespace)
			}
		}
	case c.replays():
		for _, q := range c.requests() {
			names = append(names, q.Namespace())
		}
	default:
		cluster := completer{attach: &attach.Flags{Connect: c.attach.Connect}, namespace: new(string)}
		return cluster.names(ctx, "namespaces", "")
	}
	slices.Sort(names)
	return terminal.Completions(slices.Compact(names))
}
