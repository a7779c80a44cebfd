package sight

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Help describes TYPE, for a command's help.
const Help = `Without --attach, it runs its own informer for each TYPE on the cluster of your kubeconfig.
TYPE is as in kubectl: a plural, singular or short name or a kind, optionally followed by
[.VERSION][.GROUP], a category such as "all", or several of these separated by commas.`

// Flags holds the flags that select the informers to inspect: those of a running process, or our own on
// a cluster.
type Flags struct {
	attach.Flags
	AllNamespaces bool           // -A
	Selector      string         // -l
	FieldSelector string         // --field-selector
	Replay        playback.Flags // for commands that accept recordings

	Labels labels.Selector // parsed Selector, set by Check
	Fields fields.Selector // parsed FieldSelector, set by Check
}

// Add registers the flags with a command, including completion of its arguments. The command itself must
// add the flags for recordings.
func (f *Flags) Add(cmd *cobra.Command) {
	f.Flags.Add(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "objects in all namespaces")
	flags.StringVarP(&f.Selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	flags.StringVar(&f.FieldSelector, "field-selector", "", "field selector, such as spec.nodeName=node-1; not with --attach")
	(&Completer{Attach: &f.Flags, Replay: &f.Replay, Namespace: &f.Namespace}).Register(cmd)
}

// Check validates the flags and parses the selectors.
func (f *Flags) Check() (err error) {
	if err := f.Flags.Check(); err != nil {
		return err
	}
	switch {
	case f.AllNamespaces && f.Namespace != "":
		return exit.Usage("-n %s and -A cannot be used together", f.Namespace)
	case f.FieldSelector != "" && f.To != "":
		return exit.Usage("--field-selector cannot be used with --attach: the selectors of the process's informer apply")
	case f.Replay.File != "" && f.To != "":
		return exit.Usage("--attach and --replay cannot be used together")
	case f.Replay.File != "" && f.FieldSelector != "":
		return exit.Usage("--field-selector cannot be used with --replay: the selectors of the recorded informers apply")
	case f.Replay.File != "":
		if err := f.Replay.Check(); err != nil {
			return err
		}
	}
	if f.Labels, err = labels.Parse(f.Selector); err != nil {
		return exit.Usage("--selector %q: %w", f.Selector, err)
	}
	if f.Fields, err = fields.ParseSelector(f.FieldSelector); err != nil {
		return exit.Usage("--field-selector %q: %w", f.FieldSelector, err)
	}
	return nil
}

// OnlyNamed restricts Fields to objects with the given name.
func (f *Flags) OnlyNamed(name string) {
	named := fields.OneTermEqualSelector("metadata.name", name)
	if f.Fields.Empty() {
		f.Fields = named // replace an empty selector, which would show up in the informer's name
		return
	}
	f.Fields = fields.AndSelectors(f.Fields, named)
}

// Sight is a set of informers to inspect, in this process or another. Either way they are read through
// Process. The caller must close the Sight.
type Sight struct {
	Process   *debug.Client    // reads the informers
	Called    string           // name used in messages
	Flags     *Flags           // that opened it
	Config    *config.Config   // client for the cluster; nil for a recording and for a process attached by address
	Informers []Own            // empty for an attached process
	Client    *rest.Client     // nil for an attached process
	Played    *playback.Player // nil unless a recording is replayed

	stop    context.CancelFunc
	running sync.WaitGroup
}

// Own is an informer running in this process.
type Own struct {
	Informer
	Target cluster.Target // what it watches
	Failed chan error     // receives Run's error once it has returned; readers must put it back
}

// Informer is a sharedinformer.Informer for any type.
type Informer interface {
	Run(ctx context.Context) error
	WaitForSync(ctx context.Context) error
	WaitForRV(ctx context.Context, rv string, namespaces ...string) error
	HasSynced() bool
	Unsynced() error
	Status() sharedinformer.Status
	View() sharedinformer.View
}

// Open attaches to a process, or starts informers for the given types. Unless c is nil, it reports their
// failures there.
func (f *Flags) Open(ctx context.Context, s terminal.Streams, types string, c *terminal.Console) (*Sight, error) {
	if f.To != "" {
		process, called, err := f.Attach(s)
		if err != nil {
			return nil, err
		}
		return &Sight{Process: process, Called: called, Flags: f}, nil
	}
	if f.Replay.File != "" {
		return f.openRecording(ctx, s, types)
	}
	if types == "" {
		return nil, exit.Usage("specify the types to watch, for example \"pods\", or a running process with --attach")
	}
	log := terminal.NewConsole(s, false).Logger()
	if c != nil {
		log = c.Logger()
	}
	f.Connect.Load.Namespace, f.Connect.Load.Logger = f.Namespace, log
	cfg, err := config.LoadWith(f.Connect.Load)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	return f.OpenCluster(ctx, cfg, types, c)
}

// OpenCluster starts informers on a cluster.
func (f *Flags) OpenCluster(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) (*Sight, error) {
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	v := &Sight{Called: cluster.ServerName(cfg.Host), Flags: f, Config: cfg, Client: client, stop: func() {}}
	at := cluster.Target{Client: client, Server: v.Called}
	mappings, err := at.ResolveAll(ctx, types, cluster.Patience(cfg), c)
	if err != nil {
		v.Close()
		return nil, err
	}
	recorder := flight.New(flight.DefaultSize)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	v.stop = stop
	for _, m := range mappings {
		at.Mapping, at.Namespace = m, ""
		if m.Namespaced && !f.AllNamespaces {
			at.Namespace = cfg.Namespace
		}
		v.add(running, at, recorder, c)
	}
	v.Process = debug.New(debug.Options{Informers: debug.Of(v), Recorder: recorder, Contents: true}).Client()
	return v, nil
}

// add starts one informer.
func (v *Sight) add(ctx context.Context, at cluster.Target, recorder *flight.Recorder, c *terminal.Console) {
	var i *sharedinformer.Informer[*unstructured.Unstructured]
	opts := sharedinformer.Options{
		LabelSelector: v.Flags.Labels, FieldSelector: v.Flags.Fields, Store: sharedinformer.Packed, Flight: recorder, SyncPatience: -1,
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict { return cluster.Judge(f, i.HasSynced()) },
	}
	if c != nil {
		opts.OnState = func(s reflector.Status) { at.ShowState(c, s) }
	}
	i = sharedinformer.New[*unstructured.Unstructured](cluster.Source[*unstructured.Unstructured](at), opts)
	v.start(ctx, Own{Informer: i, Target: at, Failed: make(chan error, 1)}, at.Refusal)
}

// start runs an informer until the Sight is closed.
func (v *Sight) start(ctx context.Context, o Own, refusal func(*failure.Failure) error) {
	v.Informers = append(v.Informers, o)
	v.running.Go(func() {
		err := o.Run(ctx)
		if f, ok := errors.AsType[*failure.Failure](err); ok {
			err = refusal(f)
		}
		o.Failed <- err
	})
}

// Wait waits until all of our own informers have synced, or the recording has ended.
func (v *Sight) Wait(ctx context.Context) error {
	if v.Played != nil {
		return v.waitRecorded(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	defer waits.Wait()
	defer cancel()
	for _, o := range v.Informers {
		synced := make(chan error, 1)
		waits.Go(func() { synced <- o.WaitForSync(ctx) })
		select {
		case err := <-synced:
			if err != nil {
				return v.Unanswered(ctx, err)
			}
		case err := <-o.Failed:
			o.Failed <- err
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Status implements debug.Informers.
func (v *Sight) Status() (all []sharedinformer.Status) {
	for _, o := range v.Informers {
		all = append(all, o.Informer.Status())
	}
	return all
}

// Views returns the views of the caches.
func (v *Sight) Views() (all []sharedinformer.View) {
	for _, o := range v.Informers {
		all = append(all, o.View())
	}
	return all
}

// Names returns the names of the informers for a list of types.
func (v *Sight) Names(types string) (names []string) {
	switch {
	case v.Flags.To == "":
	case strings.Contains(types, " "): // a full name, whose selector may contain commas
		return []string{types}
	default:
		return strings.Split(types, ",")
	}
	for _, o := range v.Informers {
		names = append(names, o.Informer.Status().Reflector.Resource)
	}
	return names
}

// Unanswered returns the error to report for a process that did not respond or refused the request.
func (v *Sight) Unanswered(ctx context.Context, err error) error {
	return v.Flags.Unanswered(ctx, v.Called, err)
}

// Close stops the informers and waits for them.
func (v *Sight) Close() {
	if v.Client == nil {
		return
	}
	v.stop()
	v.running.Wait()
	v.Client.CloseIdleConnections()
	if v.Played != nil {
		v.Played.Close()
	}
}

// Namespace returns the namespace for keys of the n-th informer, or "" for cluster-scoped objects.
func (v *Sight) Namespace(n int) string {
	if v.Flags.To != "" || v.Played != nil {
		return v.Flags.Namespace
	}
	return v.Informers[n].Target.Namespace
}
