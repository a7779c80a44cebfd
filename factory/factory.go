package factory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// Factory has the informers of one client. Make it with New.
type Factory struct {
	client *rest.Client
	opts   Options
	pool   *wire.Pool // nil where nothing is shared

	narrowing sync.Mutex // orders changes of namespaces; mu is taken under it

	mu         sync.Mutex // guards all below; no informer is told anything while it is held
	ctx        context.Context
	namespaces []string // of Options, as they are now
	informers  map[identity]*entry
	made       int           // how many of them there have been
	running    int           // goroutines in which informers run
	idle       chan struct{} // closed when the last of them ends; nil before the first
}

// New returns a factory without informers. It panics where client is nil.
func New(client *rest.Client, opts Options) *Factory {
	if client == nil {
		panic(failure.Place(1) + ": the client of a factory is nil: make one with rest.NewClient")
	}
	f := &Factory{client: client, opts: opts, informers: make(map[identity]*entry)}
	if opts.Namespaces != nil {
		f.namespaces = sharedinformer.NamespaceSet(opts.Namespaces)
	}
	switch {
	case opts.NoSharing:
	case opts.Pool != nil:
		f.pool = opts.Pool
	default:
		f.pool = wire.NewPool()
	}
	return f
}

// Disabled reports whether clients read a kind from the server.
func (f *Factory) Disabled(kind object.GVK) bool {
	return slices.ContainsFunc(f.opts.DisableFor, func(k object.GVK) bool { return k.GroupKind() == kind.GroupKind() })
}

// Client returns the client given to New.
func (f *Factory) Client() *rest.Client { return f.client }

// Informer returns the informer for T, which lives as long as the factory. If the
// factory has been started, the informer starts at once.
func Informer[T object.Object](f *Factory) *sharedinformer.Informer[T] {
	return InformerWith(f, For[T]{})
}

// InformerWith is Informer where there are several for T: want says which.
func InformerWith[T object.Object](f *Factory, want For[T]) *sharedinformer.Informer[T] {
	e, _ := f.use(wanted(want))
	return e.informer.(*sharedinformer.Informer[T])
}

// Borrow is InformerWith for callers that give the informer back. When all that asked
// for it have borrowed it, the last to give it back stops it, and the factory forgets
// it. The channel is closed when it has stopped, or at once while others use it. Giving
// it back again does nothing and returns the same channel.
func Borrow[T object.Object](f *Factory, want For[T]) (i *sharedinformer.Informer[T], giveBack func() (stopped <-chan struct{})) {
	e, u := f.use(wanted(want))
	return e.informer.(*sharedinformer.Informer[T]), sync.OnceValue(func() <-chan struct{} { return f.release(e, u) })
}

// use returns the informer that is wanted with one more user.
func (f *Factory) use(want want) (*entry, *user) {
	u := &user{optional: want.Optional}
	store := want.Store
	if want.Scope.isZero() {
		want.Scope = f.opts.Scope
	}
	if want.Keep.IsZero() {
		want.Keep = f.opts.Keep
	}
	if want.Store == sharedinformer.DefaultStore {
		want.Store = f.opts.Store
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	namespaces := want.Scope.namespaces()
	follows := namespaces == nil && f.namespaces != nil
	id := identify(f.client, want, namespaces, follows)
	e, ok := f.informers[id]
	if !ok {
		if follows {
			namespaces = f.namespaces
		}
		f.made++
		e = &entry{id: id, number: f.made, informer: f.newInformer(want, namespaces), keep: want.Keep, store: cmp.Or(want.Store, sharedinformer.Whole)}
		u.misuse = kindless(f.client, want)
		e.known, e.forget = context.WithCancel(context.Background())
		f.informers[id] = e
		f.start(e)
	} else {
		want.Store = store
		u.misuse = misuse(e, want, id)
	}
	e.users = append(slices.Clone(e.users), u) // entries share it
	return e, u
}

func (f *Factory) newInformer(want want, namespaces []string) informer {
	opts := f.opts.informer(want.Scope)
	opts.Namespaces, opts.Store, opts.Annotations, opts.TransformVersion = namespaces, want.Store, want.Annotations, want.TransformVersion
	resource := rest.ResourceForType(f.client, want.goType, want.Kind).Keep(want.Keep)
	if want.transform == nil {
		resource = resource.Sharing(f.pool)
	}
	from := resource.Source()
	if want.transform != nil {
		from = want.transform(from)
	}
	return want.make(from, opts)
}

// SetNamespaces changes Options.Namespaces, and with them those of every informer
// that was asked for without naming any, as sharedinformer.Informer.SetNamespaces
// does. Kinds without namespaces are not affected. It fails with
// ErrUndivided where Options.Namespaces was nil.
func (f *Factory) SetNamespaces(namespaces []string) error {
	f.narrowing.Lock()
	defer f.narrowing.Unlock()
	following, err := f.narrow(sharedinformer.NamespaceSet(namespaces))
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range following {
		errs = append(errs, i.SetNamespaces(namespaces))
	}
	return errors.Join(errs...)
}

// ErrUndivided: the factory was made without Options.Namespaces, so that its
// informers have all namespaces for good.
var ErrUndivided = errors.New("made without Options.Namespaces: give it some, metav1.NamespaceAll for all, to change them later")

// narrow stores the namespaces and returns the informers that follow them.
func (f *Factory) narrow(namespaces []string) (following []informer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.namespaces == nil {
		return nil, fmt.Errorf("factory: %w", ErrUndivided)
	}
	f.namespaces = namespaces
	for _, e := range f.inOrder() {
		if e.id.follows {
			following = append(following, e.informer)
		}
	}
	return following, nil
}

// inOrder returns the informers in the order in which they were asked for. It is called
// under mu.
func (f *Factory) inOrder() []*entry {
	return slices.SortedFunc(maps.Values(f.informers), func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
}

// Start runs every informer, in the order in which they were asked for, and those that
// are asked for later, until ctx is done. Calling it again does nothing while they run. After ctx is done it runs
// them again, and they go on from where they were (L24).
func (f *Factory) Start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx != nil && f.ctx.Err() == nil {
		return
	}
	f.ctx = ctx
	for _, e := range f.inOrder() {
		f.start(e)
	}
}

// start runs one informer, after its run before has ended. It is called under
// mu.
func (f *Factory) start(e *entry) {
	if f.ctx == nil || f.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	before, begun, ended := e.ended, make(chan struct{}), make(chan struct{})
	e.cancel, e.begun, e.ended = cancel, begun, ended
	if f.running++; f.running == 1 {
		f.idle = make(chan struct{})
	}
	go func() {
		defer f.ended()
		defer close(ended)
		defer cancel()
		if before != nil {
			<-before
		}
		wait, err := e.informer.Start(ctx)
		close(begun)
		if err != nil {
			return // another caller runs it, and hears of its end
		}
		// The error is a failure to which an error handler said Stop: it has
		// been reported there, and is in the informer's status.
		_ = wait()
	}()
}

// ended notes that one of the goroutines has ended.
func (f *Factory) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running--; f.running == 0 {
		close(f.idle)
	}
}

// Wait returns when no informer runs any more, soon after the context given to
// Start is done. The factory may be started again before every Wait has returned,
// so this is no sync.WaitGroup.
func (f *Factory) Wait() {
	f.mu.Lock()
	idle := f.idle
	f.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// release takes one user off an informer.
func (f *Factory) release(e *entry, u *user) (stopped <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ended := make(chan struct{})
	close(ended)
	e.users = slices.DeleteFunc(slices.Clone(e.users), func(other *user) bool { return other == u })
	if len(e.users) > 0 {
		return ended
	}
	delete(f.informers, e.id)
	e.forget()
	if e.cancel == nil {
		return ended
	}
	e.cancel()
	return e.ended
}

// errOther ends the wait for one informer when another one's has failed.
var errOther = errors.New("not waited for any longer")

// WaitForSync waits until every informer that the factory has now is synced, with
// its handlers. It does not wait for a kind that the server does not serve if the
// informer is For.Optional. It gives up when the first informer does (see
// sharedinformer.Informer.WaitForSync), and names each that is not synced, with its
// state and last failure. Misuse of the factory is reported at once.
func (f *Factory) WaitForSync(ctx context.Context) error {
	var misuse []error
	waiting := f.entries()
	for _, e := range waiting {
		misuse = append(misuse, e.misuse())
	}
	if err := errors.Join(misuse...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(waiting))
	var waits sync.WaitGroup
	for n, e := range waiting {
		waits.Go(func() {
			if errs[n] = e.waitForSync(ctx); errs[n] != nil {
				cancel(errOther)
			}
		})
	}
	waits.Wait()
	return errors.Join(errs...)
}

// Status returns the status of every informer, by name.
func (f *Factory) Status() []sharedinformer.Status {
	var all []sharedinformer.Status
	for _, e := range f.entries() {
		all = append(all, e.informer.Status())
	}
	return all
}

// Views returns every informer, by name, for those who look at all of them.
func (f *Factory) Views() []sharedinformer.View {
	var all []sharedinformer.View
	for _, e := range f.entries() {
		all = append(all, e.informer.View())
	}
	return all
}

// Unsynced returns the status, by name, of every informer that is not synced and that
// WaitForSync would wait for.
func (f *Factory) Unsynced() []sharedinformer.Status {
	var all []sharedinformer.Status
	for _, e := range f.entries() {
		if !e.informer.HasSynced() && !(e.optional() && e.absent()) {
			all = append(all, e.informer.Status())
		}
	}
	return all
}

// entries returns the informers as they are now, by name.
func (f *Factory) entries() []entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []entry
	for _, e := range f.inOrder() {
		all = append(all, *e)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.informer.Name(), b.informer.Name()) })
	return all
}
