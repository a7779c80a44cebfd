package main

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

const sightHelp = `Without --attach it runs an informer of its own for each TYPE on the cluster of your
kubeconfig. TYPE is as kubectl has it: a plural, a singular, a kind or a short name, with
[.VERSION][.GROUP] behind it if need be, a category such as "all", or several with commas.`

// sightFlags say what to look at: the informers of a running process, or others that this
// one runs on a cluster.
type sightFlags struct {
	attach.Flags
	allNamespaces bool
	selector      string
	fieldSelector string
	replay        playback.Flags

	labels labels.Selector // of selector, after check
	fields fields.Selector // of fieldSelector, after check
}

func (f *sightFlags) add(cmd *cobra.Command) {
	f.Flags.Add(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "objects of all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	flags.StringVar(&f.fieldSelector, "field-selector", "", "field selector, such as spec.nodeName=node-1; not with --attach")
	(&completer{attach: &f.Flags, replay: &f.replay, namespace: &f.Namespace}).register(cmd)
}

// check finds contradictions and reads the selectors.
func (f *sightFlags) check() (err error) {
	if err := f.Connect.Check(); err != nil {
		return err
	}
	switch {
	case f.allNamespaces && f.Namespace != "":
		return exit.Usage("-n %s and -A contradict each other: leave one out", f.Namespace)
	case f.fieldSelector != "" && f.To != "":
		return exit.Usage("--field-selector makes no sense with --attach: the process's own informer says what it watches")
	case f.replay.File != "" && f.To != "":
		return exit.Usage("--attach and --replay contradict each other: leave one out")
	case f.replay.File != "" && f.fieldSelector != "":
		return exit.Usage("--field-selector makes no sense with --replay: the recorded informers said what they watched")
	case f.replay.File != "":
		if err := f.replay.Check(); err != nil {
			return err
		}
	}
	if f.labels, err = labels.Parse(f.selector); err != nil {
		return exit.Usage("--selector %q: %w", f.selector, err)
	}
	if f.fields, err = fields.ParseSelector(f.fieldSelector); err != nil {
		return exit.Usage("--field-selector %q: %w", f.fieldSelector, err)
	}
	return nil
}

// sight is what a verb looks at. Whether the informers are those of another process or of
// this one, process shows them. It has to be closed.
type sight struct {
	process   *debug.Client
	called    string         // what messages call it
	flags     *sightFlags    // that opened it
	config    *config.Config // of the cluster; nil for a process that was attached to by address, and for a recording
	informers []own          // empty for a process that was attached to
	stop      context.CancelFunc
	running   sync.WaitGroup
	client    *rest.Client
	played    *playback.Player // nil but for a recording
}

// own is an informer of this process.
type own struct {
	informer
	target cluster.Target
	failed chan error // what ended Run, if anything did
}

// informer is a sharedinformer.Informer of any type.
type informer interface {
	Run(ctx context.Context) error
	WaitForSync(ctx context.Context) error
	WaitForRV(ctx context.Context, rv string) error
	HasSynced() bool
	Unsynced() error
	Status() sharedinformer.Status
	View() sharedinformer.View
}

// open attaches to a process, or starts informers of the TYPEs that types names. What is in
// the way of them is told on c, unless that is nil.
func (f *sightFlags) open(ctx context.Context, s terminal.Streams, types string, c *terminal.Console) (*sight, error) {
	if f.To != "" {
		process, called, err := f.Attach(s)
		if err != nil {
			return nil, err
		}
		return &sight{process: process, called: called, flags: f}, nil
	}
	if f.replay.File != "" {
		return f.openRecording(ctx, s, types)
	}
	if types == "" {
		return nil, exit.Usage("name what to look at, for example \"pods\", or a running process with --attach")
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
	return f.openCluster(ctx, cfg, types, c)
}

// openCluster starts informers on a cluster.
func (f *sightFlags) openCluster(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) (*sight, error) {
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	v := &sight{called: cluster.ServerName(cfg.Host), flags: f, config: cfg, client: client, stop: func() {}}
	at := cluster.Target{Client: client, Server: v.called}
	mappings, err := at.ResolveAll(ctx, types, cluster.Patience(cfg), c)
	if err != nil {
		v.close()
		return nil, err
	}
	recorder := flight.New(flight.DefaultSize)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	v.stop = stop
	for _, m := range mappings {
		at.Mapping, at.Namespace = m, ""
		if m.Namespaced && !f.allNamespaces {
			at.Namespace = cfg.Namespace
		}
		v.add(running, at, recorder, c)
	}
	v.process = debug.New(debug.Options{Informers: debug.Of(v), Recorder: recorder, Contents: true}).Client()
	return v, nil
}

// add starts one informer.
func (v *sight) add(ctx context.Context, at cluster.Target, recorder *flight.Recorder, c *terminal.Console) {
	var i *sharedinformer.Informer[*unstructured.Unstructured]
	opts := sharedinformer.Options{
		LabelSelector: v.flags.labels, FieldSelector: v.flags.fields, Store: sharedinformer.Packed, Flight: recorder, SyncPatience: -1,
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict { return cluster.Judge(f, i.HasSynced()) },
	}
	if c != nil {
		opts.OnState = func(s reflector.Status) { at.ShowState(c, s) }
	}
	i = sharedinformer.New(cluster.Source[*unstructured.Unstructured](at), opts)
	v.start(ctx, own{informer: i, target: at, failed: make(chan error, 1)}, at.Refusal)
}

// start runs an informer until the sight is closed.
func (v *sight) start(ctx context.Context, o own, refusal func(*failure.Failure) error) {
	v.informers = append(v.informers, o)
	v.running.Go(func() {
		err := o.Run(ctx)
		if f, ok := errors.AsType[*failure.Failure](err); ok {
			err = refusal(f)
		}
		o.failed <- err
	})
}

// wait waits until all informers of one's own have their objects; of a recording, until it is
// over.
func (v *sight) wait(ctx context.Context) error {
	if v.played != nil {
		return v.waitRecorded(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	defer waits.Wait()
	defer cancel()
	for _, o := range v.informers {
		synced := make(chan error, 1)
		waits.Go(func() { synced <- o.WaitForSync(ctx) })
		select {
		case err := <-synced:
			if err != nil {
				return v.unanswered(ctx, err)
			}
		case err := <-o.failed:
			o.failed <- err
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Status implements debug.Informers.
func (v *sight) Status() (all []sharedinformer.Status) {
	for _, o := range v.informers {
		all = append(all, o.informer.Status())
	}
	return all
}

// Views makes the caches visible.
func (v *sight) Views() (all []sharedinformer.View) {
	for _, o := range v.informers {
		all = append(all, o.View())
	}
	return all
}

// names returns what the process calls the informers of a list of TYPEs.
func (v *sight) names(types string) (names []string) {
	switch {
	case v.flags.To == "":
	case strings.Contains(types, " "): // a whole name, in which a selector may have commas
		return []string{types}
	default:
		return strings.Split(types, ",")
	}
	for _, o := range v.informers {
		names = append(names, o.informer.Status().Reflector.Resource)
	}
	return names
}

// unanswered is what the command fails with when the process did not answer, or refused.
func (v *sight) unanswered(ctx context.Context, err error) error {
	return v.flags.Unanswered(ctx, v.called, err)
}

// close stops the informers and waits for them.
func (v *sight) close() {
	if v.client == nil {
		return
	}
	v.stop()
	v.running.Wait()
	v.client.CloseIdleConnections()
	if v.played != nil {
		v.played.Close()
	}
}

// namespace returns where the objects of the n-th informer are, for keys; empty for those
// that have no namespace.
func (v *sight) namespace(n int) string {
	if v.flags.To != "" || v.played != nil {
		return v.flags.Namespace
	}
	return v.informers[n].target.Namespace
}
