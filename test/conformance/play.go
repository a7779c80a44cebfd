package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

// play is one run of a case against a stack: the server, its faults, and the breaks found.
type play struct {
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	stack    Stack
	ctx      context.Context
	cancel   context.CancelFunc
	runs     sync.WaitGroup

	began time.Time

	shutDown func() // shuts down the case's queue; further calls do nothing

	writes atomic.Int64 // number of writes by the stack to connections, one or two per request

	mu      sync.Mutex // guards the three fields below
	broken  []string
	missing string
	given   bool // giveUp was called
}

func newPlay(ctx context.Context, srv *apiservertest.Server, endpoint *apiservertest.Endpoint, build func(Server) Stack) *play {
	p := &play{srv: srv, endpoint: endpoint, began: time.Now(), shutDown: func() {}}
	p.stack = build(Server{URL: endpoint.URL, Dial: p.dial})
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// flood is the number of writes after which the server goes down, because virtual time stands still while a
// stack sends requests without pausing. No case needs even a tenth of that. The stack may still pass the
// case, but if it does not, the breaks mention the flood.
const flood = 5000

// most is the maximum number of breaks recorded per case.
const most = 5

// counted wraps a connection and counts its writes.
type counted struct {
	net.Conn
	play *play
}

func (c counted) Write(b []byte) (int, error) {
	if c.play.writes.Add(1)%flood == 0 {
		go c.play.srv.Down()
	}
	return c.Conn.Write(b)
}

// dial connects to the server.
func (p *play) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.endpoint.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return counted{conn, p}, nil
}

// breaks records a break and lets the case continue.
func (p *play) breaks(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.broken) < most {
		p.broken = append(p.broken, fmt.Sprintf(format, args...))
	}
}

func (p *play) breakCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.broken)
}

// want breaks the case unless ok.
func (p *play) want(ok bool, format string, args ...any) {
	if !ok {
		p.breaks(format, args...)
	}
}

// must aborts the case if err is not nil.
func (p *play) must(err error) {
	if err != nil {
		p.breaks("%v", err)
		p.giveUp()
	}
}

// giveUp aborts the case. The caller has already recorded the reason.
func (p *play) giveUp() {
	p.mu.Lock()
	p.given = true
	p.mu.Unlock()
	runtime.Goexit()
}

// guard calls f. It breaks the case if f panics, or if f exits its goroutine without giveUp, for example by
// calling testing.T.FailNow.
func (p *play) guard(what string, f func()) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			p.breaks("panic in %s: %v\n%s", what, v, debug.Stack())
			return
		}
		p.mu.Lock()
		given := p.given
		p.mu.Unlock()
		if !returned && !given {
			p.breaks("the stack has called runtime.Goexit in %s", what)
		}
	}()
	f()
	returned = true
}

// offered returns what as an O. If what does not implement O, it ends the case with the verdict "not
// offered".
func offered[O any](p *play, what any) O {
	o, ok := what.(O)
	if !ok {
		p.mu.Lock()
		p.missing = fmt.Sprintf("%T is no %s", what, name[O]())
		p.mu.Unlock()
		p.giveUp()
	}
	return o
}

func name[O any]() string {
	s := fmt.Sprintf("%T", (*O)(nil))
	return s[1:]
}

// informer creates an informer without running it.
func (p *play) informer(opts Options) Informer {
	i, err := p.stack.NewInformer(opts)
	p.must(err)
	return i
}

// run runs i until stop is called or the case ends.
func (p *play) run(i Informer) (stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	ended := make(chan struct{})
	p.runs.Go(func() {
		defer close(ended)
		p.guard("Run", func() {
			if err := i.Run(ctx); ctx.Err() == nil {
				p.breaks("Run ended by itself: %v", err)
			}
		})
	})
	return func() { cancel(); <-ended }
}

// synced creates an informer with one witness, runs it, and waits until it has synced.
func (p *play) synced(opts Options) (Informer, *witness) {
	i := p.informer(opts)
	w := p.witness(i)
	p.run(i)
	settle(time.Minute)
	if !i.HasSynced() {
		p.breaks("the informer has not synced after a minute")
		p.giveUp()
	}
	return i, w
}

// settle sleeps for d, then waits until all goroutines in the bubble are blocked.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// errRefused is the error returned by failing hooks.
var errRefused = errors.New("refused on purpose")

var pods = object.GVR{Version: "v1", Resource: "pods"}

// pod returns a pod in the namespace used by most cases, with its state in a label.
func pod(name, state string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"state": state}}}
}

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// put writes a pod and returns its resource version.
func (p *play) put(name, state string) string {
	o, err := p.srv.Put(pod(name, state))
	p.must(err)
	return o.GetResourceVersion()
}

func (p *play) delete(name string) { p.must(p.srv.Delete(pods, keyOf(name))) }

// away calls during while the server is down, then brings the server back without its history, so that the
// stack misses everything that during did.
func (p *play) away(during func()) {
	p.srv.Down()
	during()
	p.srv.Compact()
	p.srv.Up()
	settle(10 * time.Minute)
}

// fault makes requests with the given verb fail.
func (p *play) fault(verb string, count int, do ...apiservertest.Action) {
	p.srv.Faults().Add(apiservertest.Fault{Verb: verb, Resource: pods.Resource, Count: count, Do: do})
}

// over clears all faults, and brings the server back up after a flood.
func (p *play) over() {
	p.srv.Faults().Clear()
	p.srv.Up()
	settle(15 * time.Minute)
}

// equal breaks the case unless the cache matches the server.
func (p *play) equal(i Informer) {
	truth, cached := map[string]string{}, map[string]string{}
	for _, o := range p.srv.Objects(pods) {
		truth[o.GetName()] = version(o)
	}
	for _, o := range i.List() {
		p.want(cached[o.Name] == "", "the cache lists %s twice", o.Name)
		cached[o.Name] = version(o)
	}
	for name, v := range truth {
		p.want(cached[name] == v, "the server has %s at %s, the cache has %q", name, v, cached[name])
		o, ok := i.Get(keyOf(name))
		p.want(ok && version(o) == v, "the server has %s at %s, which Get does not find", name, v)
	}
	for name, v := range cached {
		p.want(truth[name] != "", "the cache has %s at %s, which the server does not have", name, v)
	}
}

func version(o metav1.Object) string { return string(o.GetUID()) + "@" + o.GetResourceVersion() }

// await calls a function with a context and waits up to an hour for it to return.
func await(p *play, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.ctx, time.Hour)
	defer cancel()
	return call(ctx)
}
