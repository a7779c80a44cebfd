package controllertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Options configure a test environment. The zero value works.
type Options struct {
	// Server configures the simulated API server. It serves the usual built-in resources plus those in
	// Server.Resources; apiservertest.ReadDefinition creates a resource from a CustomResourceDefinition
	// manifest.
	Server apiservertest.Options

	// Scheme maps kinds to Go types. The default is scheme.New().
	Scheme *runtime.Scheme

	// Factory sets the factory's options. DetectMutations defaults to one minute; a negative value disables
	// it.
	Factory factory.Options

	// Logger receives the log messages of the client, the factory and a manager's controllers. By default,
	// warnings and errors go to the test's log, along with info messages under go test -v.
	Logger *slog.Logger

	// Tick is the duration of a reconcile that writes: its first write returns after this much bubble time.
	// As on a real cluster, the next reconcile then reads a different time. This way, a test detects that a
	// status containing the time causes endless reconciles. The default is DefaultTick; a negative value
	// means that no time passes. There are no ticks during a replay.
	Tick time.Duration

	// AllowPanics allows the functions that controllers and informers call, such as reconcilers, map functions and
	// handlers, to panic, for tests of panic handling. By default, a panic fails the test.
	AllowPanics bool

	recording *recording.File // replayed to the informers; if nil, they use the server
}

// Env is a test environment: an API server, a client and a factory, in a bubble of testing/synctest.
type Env struct {
	testing.TB

	Server  *apiservertest.Server
	Client  *rest.Client
	Factory *factory.Factory

	config      *config.Config
	logger      *slog.Logger
	ctx         context.Context
	cancel      context.CancelFunc
	replay      *recording.Replay // nil if there is no recording
	allowPanics bool
	pace        *pace
	over        atomic.Bool // the test body has returned

	// quiet is a lock held by the goroutine that is waiting until everything is quiet.
	quiet    chan struct{}
	observed []*observed // only used while holding quiet

	runs    sync.WaitGroup
	mu      sync.Mutex     // guards running
	running map[string]int // number of running arguments of Start, by type
}

// Context returns a context that is canceled when the test body has returned.
func (e *Env) Context() context.Context { return e.ctx }

// Run runs body in a bubble with its own environment. It fails the test if body leaks a goroutine that does
// not exit when [Env.Context] is canceled.
func Run(t *testing.T, body func(e *Env)) {
	t.Helper()
	RunWith(t, Options{}, body)
}

// RunWith is [Run] with options.
func RunWith(t *testing.T, o Options, body func(e *Env)) {
	t.Helper()
	if o.Scheme == nil {
		o.Scheme = builtin()
	}
	if o.Factory.DetectMutations == 0 {
		o.Factory.DetectMutations = time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		if o.Logger == nil {
			o.Logger = newLogger(t)
		}
		if o.Factory.Logger == nil {
			o.Factory.Logger = o.Logger
		}
		o.Factory.OnError = failOnMutation(t, o.Factory.OnError)
		if !o.AllowPanics {
			o.Factory.OnError = failOnPanic(t, o.Factory.OnError)
		}
		srv := apiservertest.New(o.Server)
		defer srv.Close()
		endpoint, err := srv.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pace := &pace{t: t, stop: cancel, tick: max(cmp.Or(o.Tick, DefaultTick), 0)}
		if o.recording != nil {
			pace.tick = 0
		}
		cfg := &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Logger: o.Logger, WrapTransport: pace.wrap}
		var replay *recording.Replay
		if o.recording != nil {
			others, _, err := cfg.HTTPClient()
			if err != nil {
				t.Fatal(err)
			}
			defer others.CloseIdleConnections()
			replay = o.recording.Replay(recording.ReplayOptions{Others: others.Transport})
			cfg.Replay = replay
		}
		client, err := rest.NewClient(cfg, o.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		e := &Env{
			TB: t, Server: srv, Client: client, Factory: factory.New(client, o.Factory),
			config: cfg, logger: o.Logger, ctx: ctx, cancel: cancel, replay: replay, allowPanics: o.AllowPanics, pace: pace,
			quiet: make(chan struct{}, 1), running: map[string]int{},
		}
		defer e.end()
		body(e)
	})
}

// failOnMutation returns an error handler that fails the test if a cached object was modified, and
// passes other failures to next.
func failOnMutation(t interface{ Error(...any) }, next func(context.Context, *failure.Failure) failure.Verdict) func(context.Context, *failure.Failure) failure.Verdict {
	return func(ctx context.Context, f *failure.Failure) failure.Verdict {
		if _, ok := errors.AsType[*sharedinformer.MutationError](f); ok {
			t.Error(f)
		}
		if next == nil {
			return failure.Retry
		}
		return next(ctx, f)
	}
}

// failOnPanic returns an error handler that fails the test if a handler, or another function that an informer
// calls, panicked, and passes all failures to next.
func failOnPanic(t interface{ Errorf(string, ...any) }, next func(context.Context, *failure.Failure) failure.Verdict) func(context.Context, *failure.Failure) failure.Verdict {
	return func(ctx context.Context, f *failure.Failure) failure.Verdict {
		if p, ok := errors.AsType[*failure.PanicError](f); ok {
			t.Errorf("%v\n%s", f, p.Stack)
		}
		return next(ctx, f)
	}
}

var builtin = sync.OnceValue(scheme.New)

// Start starts the factory's informers and runs its arguments, usually controllers or a manager, until the
// test ends or stop is called; stop waits for all of them to return. Start returns once everything is
// quiet, that is, when the first reconciles of existing objects have finished or are waiting for time to
// pass. If an argument's Run returns an error, the test fails.
//
// Start logs which controllers are waiting for a source and why, and which reconciles have failed.
// Failed reconciles are also logged whenever everything is quiet again.
func (e *Env) Start(runs ...interface{ Run(context.Context) error }) (stop func()) {
	e.Helper()
	e.mustLive("Start")
	for n, r := range runs {
		if isNil(r) {
			e.Fatalf("Start: argument %d is nil: look at the error that came with it", n+1)
		}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	var these sync.WaitGroup
	managed := false
	for _, r := range runs {
		e.observe(r)
		if _, ok := r.(*manager.Manager); ok {
			managed = true
		}
		these.Add(1)
		e.runs.Go(func() {
			defer these.Done()
			defer e.note(r)()
			if err := r.Run(ctx); err != nil {
				e.Errorf("%T: %v", r, err)
			}
		})
	}
	if !managed { // a manager starts and stops them itself
		e.Factory.Start(e.ctx)
	}
	e.settle()
	return func() {
		cancel()
		these.Wait()
	}
}

// Settle advances the bubble's time by d, which takes no real time, and then waits until everything is
// quiet: every goroutine is waiting for time to pass or for an event, and no reconcile is writing; see
// Options.Tick. If d is not positive, Settle only waits.
//
// If an object keeps changing, Settle stops all writers and fails the test, after 10,000 changes to the
// object without time passing or 1,000 consecutive reconciles that change it. Usually, each reconcile
// changes something that triggers the next one.
func (e *Env) Settle(d time.Duration) {
	e.Helper()
	e.mustLive("Settle")
	time.Sleep(d)
	e.settle()
}

// Put creates or replaces an object on the server, including its status, waits until everything is
// quiet, and returns a copy of the server's object. If the server's object is being deleted and o has no
// finalizers, the object is removed. In that case, unless o has its UID, o is then created as a new object.
func Put[T object.Object](e *Env, o T) T {
	e.Helper()
	e.mustLive("Put")
	if isNil(o) {
		e.Fatalf("put: the %T is nil", o)
	}
	stored, err := e.Server.Put(o)
	if err != nil {
		e.Fatalf("put %T %s: %v", o, object.FormatKey(object.KeyOf(o)), err)
	}
	e.settle()
	return stored.(T)
}

// Get returns a copy of an object on the server. If the object does not exist, Get fails the test and lists
// the objects that do exist.
func Get[T object.Object](e *Env, key object.Key) T {
	e.Helper()
	gvr := resource[T](e)
	o, err := e.Server.Get(gvr, key)
	if err != nil {
		e.Fatal(e.absent("get", gvr, key, err))
	}
	return o.(T)
}

// All returns copies of all objects of a type on the server.
func All[T object.Object](e *Env) []T {
	e.Helper()
	var all []T
	for _, o := range e.Server.Objects(resource[T](e)) {
		all = append(all, o.DeepCopyObject().(T))
	}
	return all
}

// Delete deletes an object on the server and waits until everything is quiet. If the object has
// finalizers, it is only marked as being deleted.
func Delete[T object.Object](e *Env, key object.Key) {
	e.Helper()
	e.mustLive("Delete")
	gvr := resource[T](e)
	if err := e.Server.Delete(gvr, key); err != nil {
		e.Fatal(e.absent("delete", gvr, key, err))
	}
	e.settle()
}

// shownKeys limits the number of objects in a message.
const shownKeys = 10

// absent returns a message that an object does not exist, with a list of those that do.
func (e *Env) absent(verb string, gvr object.GVR, key object.Key, err error) string {
	text := fmt.Sprintf("%s %s %s: %v", verb, gvr.Resource, object.FormatKey(key), err)
	all := e.Server.Objects(gvr)
	if len(all) == 0 {
		return text + "; the server has no objects of this kind"
	}
	var keys []string
	for _, o := range all[:min(len(all), shownKeys)] {
		keys = append(keys, object.FormatKey(object.KeyOf(o)))
	}
	text += "; the server has " + strings.Join(keys, ", ")
	if more := len(all) - len(keys); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// isNil reports whether a value is nil or a nil pointer.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// resource returns the resource for a type.
func resource[T object.Object](e *Env) object.GVR {
	e.Helper()
	mapping, err := rest.ResourceFor[T](e.Client).Mapping(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	return mapping.Resource
}

// Manager returns a manager that uses the environment's client and informers. Use it to test a program
// that adds its components to a manager. Start runs the manager, which runs the informers. The test
// fails if opts sets addresses, since there is no network; leader election works. It also fails if opts
// sets Factory or Namespaces, which belong in Options.Factory, or a Scheme with kinds that
// Options.Scheme lacks. Webhooks added with manager.WebhookFor are created, along with a certificate, but
// never called, because the simulated server has no admission phase.
func (e *Env) Manager(opts manager.Options) *manager.Manager {
	e.Helper()
	for name, address := range map[string]string{
		"MetricsBindAddress": opts.MetricsBindAddress, "HealthProbeBindAddress": opts.HealthProbeBindAddress, "PprofBindAddress": opts.PprofBindAddress,
	} {
		if address != "" && address != "0" {
			e.Fatalf("Manager: %s is %q: leave it empty: a connection of the machine would end virtual time", name, address)
		}
	}
	if opts.Namespaces != nil || !reflect.ValueOf(opts.Factory).IsZero() {
		e.Fatal("Manager: Factory or Namespaces is set, but the informers are those of the environment: set controllertest.Options.Factory instead")
	}
	if opts.Scheme != nil {
		for kind := range opts.Scheme.AllKnownTypes() {
			if !e.Client.Scheme().Recognizes(kind) {
				e.Fatalf("Manager: Scheme has kinds of the group %q that the environment lacks: set controllertest.Options.Scheme", kind.Group)
			}
		}
	}
	if opts.Logger == nil {
		opts.Logger = e.logger
	}
	opts.Webhooks.Address, opts.Webhooks.Listener = "", newDeaf()
	opts.Webhooks.CertDir, opts.Webhooks.TLS = "", &serving.TLS{}
	opts.NewClient = func(*config.Config, *runtime.Scheme) (*rest.Client, error) { return e.Client, nil }
	opts.NewCache = func(*rest.Client, factory.Options) (*factory.Factory, error) { return e.Factory, nil }
	m, err := manager.New(e.config, opts)
	if err != nil {
		e.Fatal(err)
	}
	return m
}

// Logger returns the environment's logger. Pass it to controllers that are created without a manager, so
// that the test's log includes messages logged with controller.Logger.
func (e *Env) Logger() *slog.Logger { return e.logger }

// newLogger returns a logger that writes to the test's log until the test ends: warnings and errors, plus
// info messages under go test -v, with the time since the start of the test.
func newLogger(t testing.TB) *slog.Logger {
	out := &testLog{out: t.Output()}
	t.Cleanup(out.close)
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey { // bubbles start at midnight, so the time of day is the time since the start
				return slog.String(slog.TimeKey, a.Value.Time().UTC().Format("15:04:05.000"))
			}
			return a
		},
	}))
}

// testLog writes to a test's log until it is closed. Writing to the log of a finished test would panic.
type testLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = io.Discard
}
