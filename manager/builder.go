package manager

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// Builder makes a controller of a manager: with its informers, metrics, logger and
// resync. Begin with ControllerFor, end with Complete or Build. Its methods change the
// builder and return it; what is wrong is kept, and the last one says it all, each with
// the file:line of the call. It is for one goroutine.
type Builder[T object.Object] struct {
	of     *builder
	client *controller.Client[T]
}

// ControllerFor begins a controller that reconciles the objects of a type when something
// happens to them, if every predicate lets that pass. Where nobody names it, its name is
// the kind in lower case.
func ControllerFor[T object.Object](m *Manager, predicates ...controller.Predicate[T]) *Builder[T] {
	mustHave(m)
	return begin(m, Client[T](m), predicates)
}

// ControllerWith is ControllerFor for one of several informers of a type, or for a kind
// that the type does not tell.
func ControllerWith[T object.Object](m *Manager, of factory.For[T], predicates ...controller.Predicate[T]) *Builder[T] {
	mustHave(m)
	return begin(m, controller.LateClient(m.Factory(), of), predicates)
}

// mustHave panics if there is no manager, and names the line that called the exported function.
func mustHave(m *Manager) {
	if m == nil {
		panic(failure.Place(2) + ": the manager is nil")
	}
}

// begin makes a builder. The functions that users call call it, since it takes the place of their caller.
func begin[T object.Object](m *Manager, client *controller.Client[T], predicates []controller.Predicate[T]) *Builder[T] {
	b := newBuilder(m, client, reflect.TypeFor[T](), failure.Place(2))
	b.add(failure.Place(2), nil, func() controller.Source { return controller.For(client, predicates...) })
	return &Builder[T]{b, client}
}

// Client returns the client of the kind that is reconciled.
func (b *Builder[T]) Client() *controller.Client[T] { return b.client }

// Owns lets a change of an object lead to a reconcile of the object that controls it;
// see controller.Owns. Each kind is a client or an informer; controller.Where chooses among
// its changes.
func (b *Builder[T]) Owns(kinds ...controller.Watchable) *Builder[T] {
	b.of.owns(failure.Place(1), kinds)
	return b
}

// Reads makes the controller wait for the caches of kinds, each a client or an informer, that its
// reconciles read, and whose changes lead to none.
func (b *Builder[T]) Reads(kinds ...controller.Watchable) *Builder[T] {
	b.of.reads(failure.Place(1), kinds)
	return b
}

// Watches adds sources of every other kind; see controller.Map for what happens to other
// objects, and controller.Channel for what happens elsewhere.
func (b *Builder[T]) Watches(sources ...controller.Source) *Builder[T] {
	b.of.watches(failure.Place(1), sources)
	return b
}

// Sharded spreads the objects over the processes of Options.Sharding: each process caches and
// reconciles its share of the objects, by their UIDs, and of the objects of Owns those of its owners. Without
// Options.Sharding it does nothing. Everything else is left whole: the objects of Reads and Watches.
//
// The share is that of [Client] of the kind, for all that use it. Complete fails if the cache of a
// client is in use by then, such as by an index: call Sharded first. For other keys than the UID, give
// ControllerWith and controller.ClientWith scopes with [Manager.Shard].
//
// Sharding is experimental.
func (b *Builder[T]) Sharded() *Builder[T] {
	b.of.shard(failure.Place(1))
	return b
}

// Named sets the controller's name, which is in metrics, messages and the log, and must
// be unique in the manager.
func (b *Builder[T]) Named(name string) *Builder[T] {
	b.of.set(func(b *builder) { b.name = name })
	return b
}

// With sets the controller's options. What they leave out is as in
// Manager.ControllerOptions; a negative Resync is never.
func (b *Builder[T]) With(opts controller.Options) *Builder[T] {
	b.of.set(func(b *builder) { b.opts = opts })
	return b
}

// In lets the controller run in a group, such as Others: on every replica. The default
// is LeaderElected.
func (b *Builder[T]) In(group Group) *Builder[T] {
	b.of.set(func(b *builder) { b.group = &group })
	return b
}

// Complete makes the controller of a function that is given a copy of the object to
// reconcile, as controller.Objects does, and adds it to the manager, which runs it.
func (b *Builder[T]) Complete(reconcile func(ctx context.Context, o T) (controller.Result, error)) error {
	_, err := b.plain().complete(reconcile == nil, func() controller.Reconciler { return controller.Objects(b.client, reconcile) })
	return err
}

// Build makes the controller of a Reconciler, which is given the name of what to
// reconcile, also when that is gone. It adds the controller to the manager, which runs
// it, and returns it for those who add sources later.
func (b *Builder[T]) Build(r controller.Reconciler) (*controller.Controller, error) {
	return b.plain().build(r, nil)
}

// plain returns the builder of any type, nil if nobody has begun this one.
func (b *Builder[T]) plain() *builder {
	if b == nil {
		return nil
	}
	return b.of
}

// reconciled is the client of the kind to reconcile.
type reconciled interface {
	controller.Watchable
	controller.Kind
	Kind() object.GVK
	Shard(shard.Scope) error
}

// builder is a Builder of objects of any type. Nil is one that nobody has begun.
type builder struct {
	manager *Manager
	client  reconciled
	name    string
	group   *Group // nil is that of Manager.Add
	opts    controller.Options
	sharded bool
	sources []sourceMaker
	errs    []error
}

// sourceMaker makes a source when the controller is built, so that Sharded may come after it.
type sourceMaker struct {
	place string               // of the call
	owned controller.Watchable // the kind, if it is to have the share of its owners; nil if not
	make  func() controller.Source
}

// errZeroBuilder: nobody has begun it.
var errZeroBuilder = errors.New("the zero Builder builds no controller: begin with manager.ControllerFor or manager.ControllerWith")

func newBuilder(m *Manager, client reconciled, t reflect.Type, place string) *builder {
	b := &builder{manager: m, client: client, name: strings.ToLower(client.Kind().Kind)}
	if client.Kind().Empty() {
		b.name = t.String()
		_, err := client.Mapping(context.Background()) // which asks nobody where there is no kind
		b.errs = append(b.errs, fmt.Errorf("%s: %w", place, err))
	}
	return b
}

func (b *builder) set(option func(*builder)) {
	if b != nil {
		option(b)
	}
}

func (b *builder) owns(place string, kinds []controller.Watchable) {
	b.each(place, "Owns", kinds, func(k controller.Watchable) {
		b.add(place, k, func() controller.Source { return controller.Owned(k, b.client) })
	})
}

func (b *builder) reads(place string, kinds []controller.Watchable) {
	b.each(place, "Reads", kinds, func(k controller.Watchable) {
		b.add(place, nil, func() controller.Source { return controller.Awaited(k) })
	})
}

func (b *builder) each(place, method string, kinds []controller.Watchable, add func(controller.Watchable)) {
	if b == nil {
		return
	}
	for n, k := range kinds {
		if v := reflect.ValueOf(k); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			b.errs = append(b.errs, fmt.Errorf("%s: %s: client %d of %d is nil: get one from manager.Client", place, method, n+1, len(kinds)))
			continue
		}
		add(k)
	}
}

func (b *builder) watches(place string, sources []controller.Source) {
	for _, s := range sources {
		b.add(place, nil, func() controller.Source { return s })
	}
}

func (b *builder) add(place string, owned controller.Watchable, source func() controller.Source) {
	b.set(func(b *builder) { b.sources = append(b.sources, sourceMaker{place, owned, source}) })
}

func (b *builder) shard(place string) {
	if b == nil {
		return
	}
	b.sharded = true
	b.narrow(place, b.client, shard.ByUID())
}

// narrow gives the cache of a kind the share of a key. An informer has the share that it was made
// with, which the controller checks.
func (b *builder) narrow(place string, k controller.Watchable, key shard.Key) {
	scope := b.manager.Shard(key)
	if s, ok := k.(interface{ Shard(shard.Scope) error }); ok && !scope.Everything() {
		if err := s.Shard(scope); err != nil {
			b.errs = append(b.errs, fmt.Errorf("%s: %w", place, err))
		}
	}
}

// made makes the sources, and keeps what is wrong with them.
func (b *builder) made() (all []controller.Source) {
	for _, s := range b.sources {
		if b.sharded && s.owned != nil {
			b.narrow(s.place, s.owned, shard.ByOwner())
		}
	}
	for _, s := range b.sources {
		source := s.make()
		if err := source.Err(); err != nil {
			b.errs = append(b.errs, fmt.Errorf("%s: source %s: %w", s.place, source, err))
		}
		all = append(all, source.At(s.place))
	}
	return all
}

// nothing is a reconciler that is never called.
var nothing = controller.Func(func(context.Context, controller.Request) (controller.Result, error) { return controller.Result{}, nil })

// complete builds the controller of a function, unless that is missing.
func (b *builder) complete(missing bool, reconciler func() controller.Reconciler) (*controller.Controller, error) {
	if missing {
		return b.build(nothing, errors.New("the reconcile function is nil"))
	}
	if b == nil {
		return nil, errZeroBuilder
	}
	return b.build(reconciler(), nil)
}

// build builds the controller, if nothing else is wrong with it.
func (b *builder) build(r controller.Reconciler, wrong error) (*controller.Controller, error) {
	if b == nil {
		return nil, errZeroBuilder
	}
	sources := b.made()
	if wrong != nil || len(b.errs) > 0 {
		return nil, b.wrong(errors.Join(wrong, refusal(b.name, r, b.opts)))
	}
	c, err := controller.New(b.name, r, b.options())
	if err != nil {
		return nil, err // which names the controller
	}
	for _, s := range sources {
		c.Watch(s)
	}
	if b.group != nil {
		err = b.manager.AddTo(*b.group, c)
	} else {
		err = b.manager.Add(c)
	}
	if err != nil {
		b.manager.controllers.forget(c)
		return nil, b.wrong(err)
	}
	return c, nil
}

// options are the manager's where the builder's say nothing.
func (b *builder) options() controller.Options {
	opts, defaults := b.opts, b.manager.ControllerOptions()
	if opts.Metrics == nil {
		opts.Metrics = defaults.Metrics
	}
	if opts.QueueMetrics == nil {
		opts.QueueMetrics = defaults.QueueMetrics
	}
	if opts.Logger == nil {
		opts.Logger = defaults.Logger
	}
	if opts.Flight == nil {
		opts.Flight = defaults.Flight
	}
	switch {
	case opts.Resync == 0:
		opts.Resync = defaults.Resync
	case opts.Resync < 0:
		opts.Resync = 0
	}
	return opts
}

// refusal returns why controller.New refuses a controller, which is not kept, nil if it does not.
func refusal(name string, r controller.Reconciler, opts controller.Options) error {
	opts.Metrics, opts.Flight = nil, flight.New(1)
	_, err := controller.New(name, r, opts)
	if inner := errors.Unwrap(err); inner != nil {
		return inner // without the name of the controller
	}
	return err
}

// wrong is all that is wrong, with err at the end.
func (b *builder) wrong(err error) error {
	return fmt.Errorf("controller %s: %w", b.name, errors.Join(append(b.errs, err)...))
}
