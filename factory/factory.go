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

// Factory creates and runs informers that share a client. Create one with [New].
type Factory struct {
	client *rest.Client
	opts   Options
	pool   *wire.Pool // nil if nothing is shared

	narrowing sync.Mutex // serializes namespace changes and new informers that follow them; acquired before mu

	mu         sync.Mutex // guards the fields below; no informer is modified while it is held
	ctx        context.Context
	namespaces []string // the current namespaces, initially Options.Namespaces
	informers  map[identity]*entry
	made       int           // number of informers ever created
	running    int           // number of goroutines that run informers
	idle       chan struct{} // closed when the last of them has exited; nil until one is started
}

// New returns a factory without informers. It panics if client is nil.
func New(client *rest.Client, opts Options) *Factory {
	if client == nil {
		panic(failure.Place(1) + ": the factory's client is nil: create one with rest.NewClient")
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

// Disabled reports whether clients read the kind from the server rather than from an informer; see
// Options.DisableFor.
func (f *Factory) Disabled(kind object.GVK) bool {
	return slices.ContainsFunc(f.opts.DisableFor, func(k object.GVK) bool { return k.GroupKind() == kind.GroupKind() })
}

// Client returns the client passed to New.
func (f *Factory) Client() *rest.Client { return f.client }

// Informer returns the informer for T, which exists as long as the factory. If the factory has been
// started, Informer starts the informer.
func Informer[T object.Object](f *Factory) *sharedinformer.Informer[T] {
	return InformerWith(f, For[T]{})
}

// InformerWith is like [Informer]; want selects one of several informers for T.
func InformerWith[T object.Object](f *Factory, want For[T]) *sharedinformer.Informer[T] {
	e, _ := f.use(wanted(want))
	return e.informer.(*sharedinformer.Informer[T])
}

// Borrow is like [InformerWith], but the caller can release the informer by calling giveBack. If all users
// have borrowed the informer, the last call to giveBack stops it and removes it from the factory. The
// channel that giveBack returns is closed when the informer has stopped, or immediately if there are other
// users. Further calls to giveBack do nothing and return the same channel.
func Borrow[T object.Object](f *Factory, want For[T]) (i *sharedinformer.Informer[T], giveBack func() (stopped <-chan struct{})) {
	e, u := f.use(wanted(want))
	return e.informer.(*sharedinformer.Informer[T]), sync.OnceValue(func() <-chan struct{} { return f.release(e, u) })
}

// use finds or creates the wanted informer and adds a user.
func (f *Factory) use(want want) (*entry, *user) {
	u := &user{optional: want.Optional}
	store := want.Store
	want.Scope = want.Scope.or(f.opts.Scope)
	if want.Keep.IsZero() {
		want.Keep = f.opts.Keep
	}
	if want.Store == sharedinformer.DefaultStore {
		want.Store = f.opts.Store
	}
	namespaces := want.Scope.namespaces()
	follows := namespaces == nil && f.opts.Namespaces != nil
	id := identify(f.client, want, namespaces, follows)
	f.mu.Lock()
	if f.informers[id] == nil && follows { // a new informer must not list before SetNamespaces has changed the others
		f.mu.Unlock()
		f.narrowing.Lock()
		defer f.narrowing.Unlock()
		f.mu.Lock()
	}
	defer f.mu.Unlock()
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
	e.users = append(slices.Clone(e.users), u) // copies of e share the old slice
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

// SetNamespaces replaces Options.Namespaces and changes the namespaces of every informer requested
// without any, together; see sharedinformer.SetNamespaces. Cluster-scoped kinds are unaffected. It
// returns ErrUndivided if Options.Namespaces was nil.
func (f *Factory) SetNamespaces(namespaces []string) error {
	f.narrowing.Lock()
	defer f.narrowing.Unlock()
	before, following, err := f.narrow(sharedinformer.NamespaceSet(namespaces))
	if err != nil {
		return err
	}
	if err = sharedinformer.SetNamespaces(following, namespaces); err != nil {
		_, _, _ = f.narrow(before)
	}
	return err
}

// ErrUndivided is returned by SetNamespaces if the factory was created without Options.Namespaces: its
// informers always watch all namespaces.
var ErrUndivided = errors.New("created without Options.Namespaces: set it, if necessary to metav1.NamespaceAll, to change namespaces later")

// narrow stores the namespaces, and returns the previous ones and the informers that use them by default.
func (f *Factory) narrow(namespaces []string) (before []string, following []sharedinformer.View, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.namespaces == nil {
		return nil, nil, fmt.Errorf("factory: %w", ErrUndivided)
	}
	before, f.namespaces = f.namespaces, namespaces
	for _, e := range f.inOrder() {
		if e.id.follows {
			following = append(following, e.informer.View())
		}
	}
	return before, following, nil
}

// inOrder returns the informers in the order in which they were first requested. The caller holds mu.
func (f *Factory) inOrder() []*entry {
	return slices.SortedFunc(maps.Values(f.informers), func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
}

// Start starts all informers, in the order in which they were first requested, and runs them until ctx is
// done. Informers requested later start immediately. Calling Start again before ctx is done does nothing;
// after that, it runs the informers again, and they resume where they left off (L24).
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

// start runs an informer once its previous run has ended. The caller holds mu.
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
			return // another caller is running the informer and will receive its error
		}
		// The error is a failure for which an error handler returned Stop. It has already been reported,
		// and the informer's status includes it.
		_ = wait()
	}()
}

// ended records that a goroutine has finished.
func (f *Factory) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running--; f.running == 0 {
		close(f.idle)
	}
}

// Wait waits until no informer is running, which happens soon after the context passed to Start is done.
// It is not based on a sync.WaitGroup, because the factory may be restarted while callers are still
// waiting.
func (f *Factory) Wait() {
	f.mu.Lock()
	idle := f.idle
	f.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// release removes a user from an informer.
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

// errOther cancels the wait for the other informers once one has failed.
var errOther = errors.New("canceled because another informer failed to sync")

// WaitForSync waits until every informer currently in the factory has synced, along with its handlers.
// It does not wait for a kind that is not served if all users of its informer set For.Optional. It gives
// up as soon as any informer does, for example after Options.SyncPatience (see
// sharedinformer.Informer.WaitForSync). The error lists each informer that is not synced, with its state and
// latest failure, and wraps these errors, so errors.Is finds sharedinformer.ErrNotSynced. Misuse of the
// factory is reported immediately, without ErrNotSynced.
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

// Status returns the status of every informer, sorted by name.
func (f *Factory) Status() []sharedinformer.Status {
	var all []sharedinformer.Status
	for _, e := range f.entries() {
		all = append(all, e.informer.Status())
	}
	return all
}

// Views returns a view of every informer, sorted by name.
func (f *Factory) Views() []sharedinformer.View {
	var all []sharedinformer.View
	for _, e := range f.entries() {
		all = append(all, e.informer.View())
	}
	return all
}

// Unsynced returns the status of every informer that WaitForSync would wait for, sorted by name.
func (f *Factory) Unsynced() []sharedinformer.Status {
	var all []sharedinformer.Status
	for _, e := range f.entries() {
		if !e.informer.HasSynced() && !(e.optional() && e.absent()) {
			all = append(all, e.informer.Status())
		}
	}
	return all
}

// entries returns copies of the current entries, sorted by name.
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
