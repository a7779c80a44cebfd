package membership_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
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
	simulated "github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// rig is a simulated API server in a bubble, with a record of the work in each slot.
type rig struct {
	*testing.T
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	ctx      context.Context
	runs     sync.WaitGroup
	slots    int
	net      *simulated.Network
	random   *rand.Rand
	links    int
	restored atomic.Bool // the server's history went back, and so may epochs

	mu      sync.Mutex
	working map[int]string    // by slot, who
	epochs  map[int]uint64    // by slot, the greatest
	terms   map[int]time.Time // by slot, when somebody last worked
	entered int
}

func inBubble(t *testing.T, slots int, body func(r *rig)) {
	t.Helper()
	inBubbleOf(t, 1, slots, body)
}

func inBubbleOf(t *testing.T, seed uint64, slots int, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{T: t, srv: srv, endpoint: endpoint, ctx: ctx, slots: slots, net: simulated.New(seed), random: rand.New(rand.NewPCG(seed, 1)), working: map[int]string{}, epochs: map[int]uint64{}, terms: map[int]time.Time{}}
		defer srv.Close()
		defer r.runs.Wait()
		defer cancel()
		body(r)
	})
}

// network connects one member to the server. It can also delay requests and lose responses to writes.
type network struct {
	http.RoundTripper
	link    *simulated.Link
	latency time.Duration
	loses   atomic.Bool
	slow    atomic.Int64 // before a request is sent
	held    atomic.Int64 // how many requests wait for that
	late    atomic.Int64 // before the answer to a write arrives
	deaf    atomic.Bool  // watches that are opened now deliver nothing
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	n.held.Add(1)
	time.Sleep(time.Duration(n.slow.Load()))
	n.held.Add(-1)
	answer, err := n.RoundTripper.RoundTrip(req)
	if err == nil && n.loses.Load() && req.Method != http.MethodGet {
		answer.Body.Close()
		return nil, syscall.ECONNRESET
	}
	if err == nil && n.deaf.Load() && req.URL.Query().Get("watch") != "" {
		answer.Body = nothing{answer.Body, req.Context()}
	}
	if late := n.late.Load(); err == nil && late > 0 && req.Method != http.MethodGet {
		select {
		case <-time.After(time.Duration(late)):
		case <-req.Context().Done():
			answer.Body.Close()
			return nil, context.Cause(req.Context())
		}
	}
	return answer, err
}

// nothing is the body of a watch of which nothing arrives.
type nothing struct {
	io.Closer
	ctx context.Context
}

func (n nothing) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

// set makes the link like this, with its latency.
func (n *network) set(c simulated.Conditions) {
	c.Latency = n.latency
	n.link.Set(c)
}

func (n *network) heal() {
	n.loses.Store(false)
	n.slow.Store(0)
	n.late.Store(0)
	n.set(simulated.Conditions{})
}

// cut blocks all traffic until heal is called.
func (n *network) cut() { n.set(simulated.Conditions{Partition: true}) }

// member is one process.
type member struct {
	*rig
	*membership.Group
	name    string
	network *network
	stop    context.CancelFunc
	ended   atomic.Bool
}

func (r *rig) group(opts membership.Options) (*membership.Group, *network) {
	r.Helper()
	r.links++
	n := &network{link: r.net.Link(fmt.Sprint("member ", r.links)), latency: time.Duration(1+r.random.IntN(40)) * time.Millisecond}
	n.heal()
	scheme := runtime.NewScheme()
	require.NoError(r, coordinationv1.AddToScheme(scheme))
	client, err := rest.NewClient(&config.Config{
		Host: r.endpoint.URL, Dial: n.link.Dialer(r.endpoint.Connect),
		WrapTransport: func(base http.RoundTripper) http.RoundTripper { n.RoundTripper = base; return n },
	}, scheme)
	require.NoError(r, err)
	r.Cleanup(client.CloseIdleConnections)
	if opts.Name == "" {
		opts.Namespace, opts.Name = "shop", "carts"
	}
	if opts.Slots == 0 {
		opts.Slots = r.slots
	}
	g, err := membership.New(client, opts)
	require.NoError(r, err)
	return g, n
}

// join starts a member.
func (r *rig) join(name string, opts membership.Options) *member {
	r.Helper()
	return r.joinOver(name, opts, func(*network) {})
}

// joinOver starts a member with a prepared network.
func (r *rig) joinOver(name string, opts membership.Options, prepare func(*network)) *member {
	r.Helper()
	opts.Identity = name
	r.say("%s joins", name)
	m := &member{rig: r, name: name}
	m.Group, m.network = r.group(opts)
	prepare(m.network)
	ctx, stop := context.WithCancel(r.ctx)
	m.stop = stop
	r.runs.Go(func() {
		if err := m.Run(ctx); err != nil {
			r.Error(err)
		}
		m.ended.Store(true)
	})
	r.runs.Go(m.watchTerms)
	return m
}

// watchTerms sees to it that a slot that comes back does so in a later term.
func (m *member) watchTerms() {
	last := map[int]uint64{} // by slot, the epoch of the term that is over
	var had shard.Slots
	for {
		owned, changed := m.Owned()
		for _, slot := range owned.Without(had).All() {
			if term, ok := m.Term(slot); ok {
				if epoch, before := last[slot]; before && term.Epoch <= epoch && !m.restored.Load() {
					m.Errorf("%s has slot %d again from epoch %d on, after %d", m.name, slot, term.Epoch, epoch)
				}
				last[slot] = term.Epoch
			}
		}
		had = owned
		select {
		case <-changed:
		case <-m.ctx.Done():
			return
		}
	}
}

// hashOf returns a hash within a slot.
func (r *rig) hashOf(slot int) uint64 {
	return shard.NewSlots(r.slots, slot).Ranges()[0].First
}

// work works in a slot, if it is the member's, for d or until the work has to stop, which it does
// after a while. At no time do two work in one slot (S01).
func (m *member) work(slot int, d, stopping time.Duration) bool {
	ctx, leave, err := m.Enter(m.ctx, m.hashOf(slot))
	if err != nil {
		return false
	}
	defer leave()
	token, ok := shard.TokenOf(ctx)
	if term, held := m.Term(slot); held && term != token {
		m.Errorf("slot %d: the term is %+v, and the context's %+v", slot, term, token)
	}
	m.mu.Lock()
	if other, busy := m.working[slot]; busy {
		m.Errorf("S01: slot %d is worked on by %s, and now by %s", slot, other, m.name)
	}
	if !ok || token.Slot != slot || token.Epoch < m.epochs[slot] && !m.restored.Load() {
		m.Errorf("slot %d: token %+v after epoch %d", slot, token, m.epochs[slot])
	}
	if token.Epoch != m.epochs[slot] {
		m.say("%s has slot %d from epoch %d on", m.name, slot, token.Epoch)
	}
	m.working[slot], m.epochs[slot] = m.name, token.Epoch
	m.entered++
	m.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		time.Sleep(stopping)
	}
	m.mu.Lock()
	delete(m.working, slot)
	m.terms[slot] = time.Now()
	m.mu.Unlock()
	return true
}

// say tells what happens, in the log of a schedule that is played alone.
func (r *rig) say(format string, args ...any) {
	if *seed != 0 {
		r.Logf("%s "+format, append([]any{time.Now().Format("04:05.000")}, args...)...)
	}
}

// settle lets d pass, and then everything that is under way.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// owners returns the owner of each slot, and fails if a slot has none or two.
func (r *rig) owners(members ...*member) []string {
	r.Helper()
	all := make([]string, r.slots)
	for _, m := range members {
		owned, _ := m.Owned()
		for _, slot := range owned.All() {
			if all[slot] != "" {
				r.Errorf("slot %d is owned by %s and %s", slot, all[slot], m.name)
			}
			all[slot] = m.name
		}
	}
	for slot, name := range all {
		if name == "" {
			r.Errorf("slot %d is nobody's:\n%s", slot, r.describe(members))
			break
		}
	}
	return all
}

func (r *rig) describe(members []*member) string {
	var b strings.Builder
	for _, m := range members {
		s := m.Status()
		fmt.Fprintf(&b, "%s: owned %s, wanted %s, leaving %s, orphans %s, refusal %v, attempts %d, failure %v, lost %v\n", m.name, s.Owned, s.Wanted, s.Leaving, s.Orphans, s.Refusal, s.Attempts, s.Failure, s.Lost)
		for _, other := range s.Members {
			fmt.Fprintf(&b, "   %+v\n", other)
		}
	}
	for _, o := range r.srv.Objects(leases) {
		fmt.Fprintf(&b, "lease %s@%s %v\n", o.GetName(), o.GetResourceVersion(), o.GetAnnotations())
	}
	return b.String()
}

func (r *rig) counts(members ...*member) map[string]int {
	r.Helper()
	all := map[string]int{}
	for _, name := range r.owners(members...) {
		all[name]++
	}
	return all
}

func (r *rig) lease(identity string) *coordinationv1.Lease {
	for _, o := range r.srv.Objects(leases) {
		if l := o.(*coordinationv1.Lease); l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == identity {
			return l.DeepCopy()
		}
	}
	return nil
}

func (r *rig) keyOf(l *coordinationv1.Lease) object.Key { return object.KeyOf(l) }
