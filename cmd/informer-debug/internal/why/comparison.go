package why

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// DescribeCommand returns the verb describe, which writes to s.
func DescribeCommand(s terminal.Streams) *cobra.Command {
	var look sight.Flags
	var last int
	cmd := &cobra.Command{
		Use:   "describe TYPE/NAME | TYPE NAME",
		Short: "Show an object as a cache has it beside the server's",
		Long: `describe reads one object from a cache and from the server: the version of each, where
they differ, field by field, the last Events that the cluster has of it, and with --attach which
handlers and controllers are behind, and what the flight recorder remembers of the object. What a
cache leaves out on purpose shows as a difference, too. Fields are compared where the process shows
contents, and of Secrets never. Events need the verb list on events; without it describe says so.

` + sight.Help + `
` + playback.Help + ` describe shows what became of the object: there is no server to compare with.

With --attach, TYPE is the name of an informer as the process calls it, such as pods. The
kubeconfig says which cluster to compare with: with a process at a URL, --token and the flags
about TLS concern the process alone.

` + attach.Help + `

` + exit.Help,
		Example: `  informer-debug describe pods/web-1 -n shop
  informer-debug describe pods/web-1 -n shop --attach http://localhost:6060
  informer-debug describe pods/web-1 -n shop --replay bug.recording`,
		Args: cobra.RangeArgs(1, 2),
	}
	look.Add(cmd)
	look.Replay.Add(cmd, "")
	cmd.ValidArgsFunction = (&sight.Completer{Attach: &look.Flags, Replay: &look.Replay, Namespace: &look.Namespace, Slash: true, Second: true}).Arguments
	cmd.Flags().IntVar(&last, "last", 20, "how many of the last events to show; 0 is none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := look.Check(); err != nil {
			return err
		}
		return runDescribe(cmd.Context(), s, &look, args, last)
	}
	return cmd
}

func runDescribe(ctx context.Context, s terminal.Streams, look *sight.Flags, args []string, last int) error {
	types, name, named := attach.CutName(args[0])
	twice := named && len(args) == 2
	if len(args) == 2 { // as kubectl has it, too
		name = args[1]
	}
	switch {
	case twice || types == "" || name == "" || strings.Contains(name, "/"):
		return exit.Usage("%q: want TYPE/NAME or TYPE NAME", strings.Join(args, " "))
	case look.AllNamespaces:
		return exit.Usage("an object by its name is in one namespace: leave out -A, or say -n")
	case last < 0:
		return exit.Usage("--last is %d: want 0 or more", last)
	}
	if look.To == "" && look.Replay.File == "" {
		look.OnlyNamed(name)
	}
	v, err := look.Open(ctx, s, types, terminal.NewConsole(s, false))
	if err != nil {
		return err
	}
	defer v.Close()
	if err := v.Wait(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
	}
	if v.Played != nil {
		return describeRecorded(ctx, v, s.Out, types, name, last)
	}
	at, err := v.Server(s)
	if err != nil {
		return err
	}
	if v.Client == nil {
		defer at.Client.CloseIdleConnections()
	}
	status, err := v.Process.Status(ctx)
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	informers, err := sight.Choose(status.Informers, types, look.To != "")
	if err != nil {
		return err
	}
	if len(informers) != 1 {
		return sight.Several(types, informers)
	}
	d := description{sight: v, at: at, informer: &informers[0], status: status, called: types + "/" + name, console: terminal.NewConsole(s, false)}
	if err := d.read(ctx, name); err != nil {
		return err
	}
	return exit.Unwritten(d.write(ctx, s.Out, last))
}

// description is an object as a cache and as the server have it.
type description struct {
	sight    *sight.Sight
	at       cluster.Target
	informer *debug.Informer
	status   *debug.Status
	called   string
	console  *terminal.Console
	key      object.Key
	cached   *debug.Object              // nil where the cache has none
	served   *unstructured.Unstructured // nil where the server has none
	events   clusterEvents
}

// read asks the cache first, so that the server's state is not the older one.
func (d *description) read(ctx context.Context, name string) error {
	scopes, err := sight.Scopes(d.informer)
	if err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	mapping, err := d.at.Resolve(ctx, scopes[0].Resource, cluster.Patience(d.sight.Config), d.console)
	if err != nil {
		return d.at.Unavailable(cluster.RootCause(err), err)
	}
	if d.key.Name = name; mapping.Namespaced {
		d.key.Namespace = d.sight.Namespace(0)
		if d.key.Namespace == "" && len(scopes) == 1 {
			d.key.Namespace = scopes[0].Namespace
		}
		if d.key.Namespace == "" {
			return exit.Usage("%s is in a namespace: say which with -n", d.called)
		}
	}
	d.cached, err = d.sight.Process.Object(ctx, d.informer.Which(), d.key)
	if refused, ok := errors.AsType[*debug.RefusedError](err); ok && refused.Code == http.StatusNotFound {
		d.cached, err = nil, nil
	}
	if err != nil {
		return d.sight.Unanswered(ctx, err)
	}
	d.served, err = rest.ResourceForMapping[*unstructured.Unstructured](d.at.Client, mapping).Get(ctx, d.key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		d.served, err = nil, nil
	}
	switch {
	case err != nil:
		return d.at.Unavailable(err, err)
	case d.cached == nil && d.served == nil:
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s is neither in the cache nor on the server", d.called)}
	}
	d.events = readEvents(ctx, d.at.Client, mapping.Kind.Kind, d.key, d.uid())
	return nil
}

// uid is that of the server's object; of the cache's where the server has none.
func (d *description) uid() string {
	if d.served != nil {
		return string(d.served.GetUID())
	}
	return d.cached.Head.UID
}

func (d *description) write(ctx context.Context, w io.Writer, last int) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "%s\n", terminal.OneLine(fmt.Sprintf(format, args...)))
	}
	line("%s", d.verdict())
	d.versions(line)
	differing, err := d.differing()
	if err != nil {
		line("The fields cannot be compared: %v.", err)
	}
	if len(differing) > 0 {
		line("From the cache to the server:")
	}
	for _, change := range differing {
		fmt.Fprintf(&b, "  %s\n", terminal.OneLine(change.Text(true)))
	}
	d.events.write(&b)
	if d.sight.Flags.To != "" {
		d.readers(ctx, &b)
		d.timeline(ctx, &b, last)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// verdict says in a sentence how the two are to each other.
func (d *description) verdict() string {
	upTo := d.informer.RV
	if d.cached != nil {
		upTo = d.cached.RV
	}
	way := func(rv string) string {
		if !d.informer.Synced {
			return "the informer has no whole initial list: " + d.informer.Reflector.Missing().Error()
		}
		if object.ReachedRV(upTo, rv) {
			return "the cache is complete up to version " + upTo + ", and should have it: see informer-debug check"
		}
		late := "is on its way"
		if trouble := d.informer.Trouble(d.status.At); trouble != "" {
			late = "has not come: " + trouble
		}
		return "the cache is complete up to version " + terminal.OrDash(upTo) + ", and the change " + late
	}
	switch {
	case d.cached == nil:
		return fmt.Sprintf("%s is on the server and not in the cache, for a selector or because %s.", d.called, way(d.served.GetResourceVersion()))
	case d.served == nil:
		return fmt.Sprintf("%s is in the cache, complete up to version %s, and not on the server%s.", d.called, terminal.OrDash(upTo), sight.AndTrouble(d.informer, d.status.At))
	}
	has, is := d.cached.Head, d.served
	switch rv := is.GetResourceVersion(); {
	case has.UID != string(is.GetUID()):
		return fmt.Sprintf("%s was deleted and made again, and the cache has the one before: %s.", d.called, way(rv))
	case has.RV == rv:
		return fmt.Sprintf("The cache has %s as the server has it, with version %s.", d.called, rv)
	case sight.Newer(has.RV, rv):
		return fmt.Sprintf("The cache has version %s of %s, and the server answers with version %s, which is older: see that it is the same cluster.", has.RV, d.called, rv)
	default:
		return fmt.Sprintf("The cache has version %s of %s, and the server version %s: %s.", has.RV, d.called, rv, way(rv))
	}
}

// versions writes a line for each of the two.
func (d *description) versions(line func(string, ...any)) {
	if o := d.cached; o != nil {
		line("  cache   version %s, generation %d, UID %s; complete up to version %s", o.Head.RV, o.Head.Generation, o.Head.UID, terminal.OrDash(o.RV))
	}
	if o := d.served; o != nil {
		age := ""
		if made := o.GetCreationTimestamp(); !made.IsZero() {
			age = ", made " + terminal.Duration(time.Since(made.Time)) + " ago"
		}
		if changed := lastChange(o); !changed.IsZero() {
			age += ", changed " + terminal.Duration(time.Since(changed)) + " ago"
		}
		line("  server  version %s, generation %d, UID %s%s", o.GetResourceVersion(), o.GetGeneration(), o.GetUID(), age)
	}
	if o := d.cached; o != nil && o.Withheld != "" {
		line("Fields are not compared: %s.", o.Withheld)
	}
}

// lastChange is when an object was written last, to the second, as its managed fields tell.
func lastChange(o *unstructured.Unstructured) (at time.Time) {
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
