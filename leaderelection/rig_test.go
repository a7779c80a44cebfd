package leaderelection_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

var (
	leases = coordinationv1.SchemeGroupVersion.WithResource("leases")
	key    = object.Key{Namespace: "shop", Name: "janitor"}
)

// rig is a simulated API server in a bubble.
type rig struct {
	*testing.T
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	ctx      context.Context
	runs     sync.WaitGroup
}

func inBubble(t *testing.T, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{T: t, srv: srv, endpoint: endpoint, ctx: ctx}
		defer srv.Close()
		defer r.runs.Wait()
		defer cancel()
		body(r)
	})
}

// candidate is one process: an elector with its own network.
type candidate struct {
	*rig
	*leaderelection.Elector
	network *network
	stop    context.CancelFunc

	stopping time.Duration // how long the work takes to stop

	mu     sync.Mutex
	terms  []int64 // tokens of the terms that it has led
	result error
	ended  bool
}

// network is a RoundTripper that can be cut: requests then hang until they are
// given up. It can also lose the next one, refuse all at once, or panic.
type network struct {
	http.RoundTripper
	cut, lose, refuse, panics atomic.Bool
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	if n.panics.Load() {
		panic("boom")
	}
	if n.cut.Load() || n.lose.Swap(false) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if n.refuse.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return n.RoundTripper.RoundTrip(req)
}

func (r *rig) elector(opts leaderelection.Options) (*leaderelection.Elector, *network) {
	r.Helper()
	n := &network{}
	scheme := runtime.NewScheme()
	require.NoError(r, coordinationv1.AddToScheme(scheme))
	client, err := rest.NewClient(&config.Config{
		Host: r.endpoint.URL, Dial: r.endpoint.DialContext,
		WrapTransport: func(base http.RoundTripper) http.RoundTripper { n.RoundTripper = base; return n },
	}, scheme)
	require.NoError(r, err)
	r.Cleanup(client.CloseIdleConnections)
	if opts.Name == "" {
		opts.Namespace, opts.Name = key.Namespace, key.Name
	}
	e, err := leaderelection.New(client, opts)
	require.NoError(r, err)
	return e, n
}

// join starts a candidate.
func (r *rig) join(opts leaderelection.Options) *candidate {
	r.Helper()
	return r.joinSlow(opts, 0)
}

// joinSlow starts a candidate whose work takes a while to stop.
func (r *rig) joinSlow(opts leaderelection.Options, stopping time.Duration) *candidate {
	r.Helper()
	c := &candidate{rig: r, stopping: stopping}
	c.Elector, c.network = r.elector(opts)
	c.start(r.ctx)
	return c
}

func (c *candidate) start(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	c.runs.Go(func() {
		err := c.Run(ctx, c.work)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.result, c.ended = err, true
	})
}

func (c *candidate) work(ctx context.Context) error {
	token, ok := leaderelection.Token(ctx)
	c.mu.Lock()
	if !ok {
		c.Error("no token in the context of the work")
	}
	c.terms = append(c.terms, token)
	c.mu.Unlock()
	<-ctx.Done()
	time.Sleep(c.stopping)
	if cause := context.Cause(ctx); errors.Is(cause, leaderelection.ErrLost) {
		return cause
	}
	return nil
}

func (c *candidate) leads() bool { return c.Status().Leading }

func (c *candidate) tokens() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.terms
}

// end returns the result of Run.
func (c *candidate) end() (err error, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result, c.ended
}

// settle lets d pass, and then everything that is under way.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// lease is the Lease as the server has it.
func (r *rig) lease() *coordinationv1.Lease {
	r.Helper()
	o, err := r.srv.Get(leases, key)
	require.NoError(r, err)
	return o.DeepCopyObject().(*coordinationv1.Lease)
}

func (r *rig) put(change func(*coordinationv1.Lease)) {
	r.Helper()
	l := r.lease()
	change(l)
	_, err := r.srv.Put(l)
	require.NoError(r, err)
}
