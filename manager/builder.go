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

// Builder configures a controller that uses a manager's informers, metrics, logger and resync interval.
// Start with [ControllerFor] and finish with Complete or Build. The methods modify and return the
// builder. Errors are collected and returned by the final call, each with the file:line of the call that
// caused it. A Builder must not be used concurrently.
type Builder[T object.Object] struct {
	of     *builder
	client *controller.Client[T]
}

// ControllerFor starts building a controller for objects of type T. It reconciles an object after each of
// its events that passes all predicates. The controller's default name is the kind in lower case.
func ControllerFor[T object.Object](m *Manager, predicates ...controller.Predicate[T]) *Builder[T] {
	mustHave(m)
	return begin(m, Client[T](m), predicates)
}

// ControllerWith is like [ControllerFor]; of selects among several informers for a type, or specifies
// the kind if the type does not determine it.
func ControllerWith[T object.Object](m *Manager, of factory.For[T], predicates ...controller.Predicate[T]) *Builder[T] {
	mustHave(m)
	return begin(m, controller.LateClient(m.Factory(), of), predicates)
}

// mustHave panics if m is nil. The message includes the line that called the exported function.
func mustHave(m *Manager) {
	if m == nil {
		panic(failure.Place(2) + ": the manager is nil")
	}
}

// begin creates a builder. Exported functions must call it directly, because it records their caller's
// line.
func begin[T object.Object](m *Manager, client *controller.Client[T], predicates []controller.Predicate[T]) *Builder[T] {
	b := newBuilder(m, client, reflect.TypeFor[T](), failure.Place(2))
	b.add(failure.Place(2), nil, func() controller.Source { return controller.For(client, predicates...) })
	return &Builder[T]{b, client}
}

// Client returns the client for the reconciled kind.
func (b *Builder[T]) Client() *controller.Client[T] { return b.client }

// Owns makes the controller also reconcile an object whenever one of the objects that it controls changes;
// see [controller.Owns]. Each kind is a client or an informer, optionally with predicates added by
// [controller.Where].
func (b *Builder[T]) Owns(kinds ...controller.Watchable) *Builder[T] {
	b.of.owns(failure.Place(1), kinds)
	return b
}

// Reads makes the controller wait for the caches of kinds that it reads without reacting to changes.
// Each kind is a client or an informer.
func (b *Builder[T]) Reads(kinds ...controller.Watchable) *Builder[T] {
	b.of.reads(failure.Place(1), kinds)
	return b
}

// Watches adds other sources, for example [controller.Map] for events from other kinds and
// [controller.Channel] for events from outside the cluster.
func (b *Builder[T]) Watches(sources ...controller.Source) *Builder[T] {
	b.of.watches(failure.Place(1), sources)
	return b
}

// Sharded divides the objects by UID among the processes in the Options.Sharding group: each process caches
// and reconciles its share, along with the owned objects of kinds passed to Owns. Kinds passed to Reads and
// Watches are not divided. Without Options.Sharding, Sharded does nothing.
//
// Each reconcile runs between the Enter and leave of the share (shard.Share), so its slot is not handed over
// while it runs. Its context carries the slot's token (shard.TokenOf) and is canceled if the slot is lost,
// with a cause that wraps shard.ErrLost or shard.ErrMoved.
//
// The share applies to the [Client] for the kind, and thus to everything that uses it. Complete fails if
// a client's cache is already in use, for example by an index for controller.MapByIndex. To avoid that,
// call Sharded before adding the index and its source. Complete detects this mistake only with
// Options.Sharding, so set it in tests. For keys other than the UID, pass scopes from [Manager.Shard] to
// ControllerWith and controller.ClientWith.
//
// Sharding is experimental.
func (b *Builder[T]) Sharded() *Builder[T] {
	b.of.shard(failure.Place(1))
	return b
}

// Named sets the controller's name, which appears in metrics, messages and the log. It must be unique
// within the manager.
func (b *Builder[T]) Named(name string) *Builder[T] {
	b.of.set(func(b *builder) { b.name = name })
	return b
}

// With sets the controller's options. Zero fields are taken from Manager.ControllerOptions; a negative
// Resync disables resyncs.
func (b *Builder[T]) With(opts controller.Options) *Builder[T] {
	b.of.set(func(b *builder) { b.opts = opts })
	return b
}

// In sets the controller's group. In Others, the controller runs on every replica. The default is
// LeaderElected.
func (b *Builder[T]) In(group Group) *Builder[T] {
	b.of.set(func(b *builder) { b.group = &group })
	return b
}

// Complete builds a controller that calls reconcile with a copy of the object, as [controller.Objects]
// does. It adds the controller to the manager, which runs it.
func (b *Builder[T]) Complete(reconcile func(ctx context.Context, o T) (controller.Result, error)) error {
	_, err := b.plain().complete(reconcile == nil, func() controller.Reconciler { return controller.Objects(b.client, reconcile) })
	return err
}

// Build builds a controller that calls r with the object's key, even after the object is deleted. Build
// adds the controller to the manager, which runs it. It returns the controller so that sources can be
// added later.
func (b *Builder[T]) Build(r controller.Reconciler) (*controller.Controller, error) {
	return b.plain().build(r, nil)
}

// plain returns the untyped builder, or nil for the zero Builder.
func (b *Builder[T]) plain() *builder {
	if b == nil {
		return nil
	}
	return b.of
}

// reconciled is the untyped client for the reconciled kind.
type reconciled interface {
	controller.Watchable
	controller.Kind
	Kind() object.GVK
	Shard(shard.Scope) error
}

// builder is an untyped Builder. It is nil in the zero Builder.
type builder struct {
	manager *Manager
	client  reconciled
	name    string
	group   *Group // nil means Manager.Add's default
	opts    controller.Options
	sharded bool
	sources []sourceMaker
	errs    []error
}

// sourceMaker creates a source when the controller is built, so that Sharded may be called after the source
// has been added.
type sourceMaker struct {
	place string               // where the source was added
	owned controller.Watchable // the kind if Sharded should shard it by owner, otherwise nil
	make  func() controller.Source
}

// errZeroBuilder is the error for the zero Builder.
var errZeroBuilder = errors.New("the zero Builder cannot build a controller: start with manager.ControllerFor or manager.ControllerWith")

func newBuilder(m *Manager, client reconciled, t reflect.Type, place string) *builder {
	b := &builder{manager: m, client: client, name: strings.ToLower(client.Kind().Kind)}
	if client.Kind().Empty() {
		b.name = t.String()
		_, err := client.Mapping(context.Background()) // this makes no request if the kind is unknown
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

// narrow sets the share of a kind's cache. It cannot do so for an informer; the controller verifies that
// the informer has the right share.
func (b *builder) narrow(place string, k controller.Watchable, key shard.Key) {
	scope := b.manager.Shard(key)
	if s, ok := k.(interface{ Shard(shard.Scope) error }); ok && !scope.Everything() {
		if err := s.Shard(scope); err != nil {
			b.errs = append(b.errs, fmt.Errorf("%s: %w", place, err))
		}
	}
}

// made creates the sources and collects their errors.
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

// complete builds the controller unless its function is missing.
func (b *builder) complete(missing bool, reconciler func() controller.Reconciler) (*controller.Controller, error) {
	if missing {
		return b.build(nothing, errors.New("the reconcile function is nil"))
	}
	if b == nil {
		return nil, errZeroBuilder
	}
	return b.build(reconciler(), nil)
}

// build builds the controller unless there were errors.
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
		return nil, err // the error includes the controller's name
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

// options returns the builder's options, with the manager's as defaults.
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

// refusal returns the error that controller.New would return for these options, without registering the
// controller.
func refusal(name string, r controller.Reconciler, opts controller.Options) error {
	opts.Metrics, opts.Flight = nil, flight.New(1)
	_, err := controller.New(name, r, opts)
	if inner := errors.Unwrap(err); inner != nil {
		return inner // without the controller's name
	}
	return err
}

// wrong joins all collected errors and err.
func (b *builder) wrong(err error) error {
	return fmt.Errorf("controller %s: %w", b.name, errors.Join(append(b.errs, err)...))
}
