package manager_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

var sharedScheme = sync.OnceValue(func() *runtime.Scheme { return scheme.New() })

// rig is a simulated API server in a bubble of testing/synctest.
type rig struct {
	*testing.T
	srv *apiservertest.Server
	cfg *config.Config
	ctx context.Context // ends with the test, before the server

	runs sync.WaitGroup

	mu  sync.Mutex
	log []string
}

func inBubble(t *testing.T, opts apiservertest.Options, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(opts)
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{T: t, srv: srv, ctx: ctx, cfg: &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Namespace: "shop"}}
		defer srv.Close()
		defer r.runs.Wait()
		defer cancel()
		body(r)
	})
}

func (r *rig) manager(opts manager.Options) *manager.Manager {
	r.Helper()
	if opts.Scheme == nil {
		opts.Scheme = sharedScheme()
	}
	m, err := manager.New(r.cfg, opts)
	require.NoError(r, err)
	return m
}

// run is a running manager and its result.
type run struct {
	*rig
	*manager.Manager
	stop  context.CancelFunc
	ended atomic.Bool
	err   error
}

func (r *rig) start(m *manager.Manager) *run {
	ctx, cancel := context.WithCancel(r.ctx)
	running := &run{rig: r, Manager: m, stop: cancel}
	r.runs.Go(func() {
		running.err = m.Run(ctx)
		running.ended.Store(true)
	})
	return running
}

// end stops the manager and returns what Run returned.
func (r *run) end() error {
	r.stop()
	settle(time.Minute)
	require.True(r, r.ended.Load(), "it did not stop")
	return r.err
}

// note records something that happened.
func (r *rig) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, what)
}

// noted returns everything recorded since the last call.
func (r *rig) noted() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

// part is a runnable that records its start and its end.
type part struct {
	*rig
	name     string
	stopping time.Duration // how long it takes
	fail     error         // a second after its start
}

func (p *part) Name() string { return p.name }

func (p *part) Run(ctx context.Context) error {
	p.note("+" + p.name)
	if p.fail != nil {
		time.Sleep(time.Second)
		return p.fail
	}
	<-ctx.Done()
	time.Sleep(p.stopping)
	p.note("-" + p.name)
	return ctx.Err()
}

// warmer is a part with a warm-up.
type warmer struct {
	part
	warmup func(context.Context) error
}

func (w *warmer) Warmup(ctx context.Context) error {
	w.note("~" + w.name)
	return w.warmup(ctx)
}

// readier is a runnable that waits for a source itself.
type readier struct {
	part
	source interface{ HasSynced() bool }
}

func (p *readier) Ready() error {
	if p.source.HasSynced() {
		return nil
	}
	return errors.New(p.name + " waits for its source")
}

// settle waits for d, and then for everything in progress.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) pod(name string) {
	r.Helper()
	_, err := r.srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	require.NoError(r, err)
}

// probe requests a manager's probes.
func probe(m *manager.Manager, path string) (code int, body string) {
	w := httptest.NewRecorder()
	m.Probes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func ready(m *manager.Manager) bool {
	code, _ := probe(m, "/readyz")
	return code == http.StatusOK
}

var errBoom = errors.New("boom")

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
