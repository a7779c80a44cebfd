package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/controllers"
	"github.com/millrace-dev/millrace/examples/controller-manager/life"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// sharedSlots is how many slots there are.
const sharedSlots = 16

// ledger checks every write to Deployments, ReplicaSets and Pods by the token of its slot (S01).
type ledger struct {
	testing.TB

	mu     sync.Mutex // guards all below
	epochs map[int]uint64
	terms  map[shard.Token]string // who has written in each
	hands  map[int]int            // writes under way, by slot
	writes map[string]int         // by program
}

var ours = regexp.MustCompile(`^/apis?/(?:apps/)?v1/namespaces/([^/]+)/(?:deployments|replicasets|pods)(?:/|$)`)

// begin is called before a write, and returns what is to be called after it.
func (l *ledger) begin(name string, req *http.Request) (end func()) {
	path := ours.FindStringSubmatch(req.URL.Path)
	if path == nil || req.Method == http.MethodGet {
		return func() {}
	}
	token, ok := shard.TokenOf(req.Context())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[name]++
	who, busy := l.terms[shard.Token{Slot: token.Slot, Epoch: l.epochs[token.Slot]}], l.hands[token.Slot] > 0
	switch {
	case !ok:
		l.Errorf("S01: %s writes outside of its share: %s %s", name, req.Method, req.URL.Path)
		return func() {}
	case shard.SlotOf(shard.Hash(path[1]), sharedSlots) != token.Slot:
		l.Errorf("S01: %s has slot %d, and writes to another: %s %s", name, token.Slot, req.Method, req.URL.Path)
	case busy && who != name:
		l.Errorf("S01: %s and %s write in slot %d at one time", who, name, token.Slot)
	case token.Epoch < l.epochs[token.Slot]:
		l.Errorf("S01: %s writes in slot %d with epoch %d, and %s with %d before", name, token.Slot, token.Epoch, who, l.epochs[token.Slot])
	case token.Epoch == l.epochs[token.Slot] && who != name:
		l.Errorf("S01: %s and %s write in one term of slot %d", who, name, token.Slot)
	}
	l.epochs[token.Slot], l.terms[token] = token.Epoch, name
	l.hands[token.Slot]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hands[token.Slot]--
	}
}

// transport is that of a program whose writes go into the ledger.
type transport struct {
	*ledger
	name string
	next http.RoundTripper
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	defer t.begin(t.name, req)()
	return t.next.RoundTrip(req)
}

// company is programs that share the controllers, and one that is the kubelet.
type company struct {
	*ledger
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	net      *network.Network
	ctx      context.Context
	runs     sync.WaitGroup
}

func (c *company) run(ctx context.Context, name string, m *manager.Manager) {
	c.runs.Go(func() {
		if err := m.Run(ctx); err != nil {
			c.Errorf("%s: %v", name, err)
		}
	})
}

// join starts a program. It can be cut off from the server, and stopped.
func (c *company) join(name string) (*network.Link, context.CancelFunc) {
	c.Helper()
	link := c.net.Link(name)
	link.Set(network.Conditions{Latency: time.Millisecond})
	cfg := &config.Config{Host: c.endpoint.URL, Dial: link.Dialer(c.endpoint.Connect), Namespace: "system", WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return transport{c.ledger, name, next}
	}}
	m, err := manager.New(cfg, manager.Options{
		GracefulShutdownTimeout: -1,
		Factory:                 factory.Options{Timing: reflector.Timing{WatchTimeout: time.Minute, StallTimeout: 10 * time.Second}},
		Sharding:                &membership.Options{Name: "controllers", Identity: name, Slots: sharedSlots},
	})
	require.NoError(c, err)
	registry, err := controllers.Registry()
	require.NoError(c, err)
	cm, err := controllermanager.New(registry, m.Factory(), controllermanager.Options{
		NewClient: controllermanager.Clients(cfg, m.Scheme()), Shard: m.Shard,
	})
	require.NoError(c, err)
	require.NotNil(c, cm.Share())
	require.ErrorContains(c, m.AddTo(manager.LeaderElected, cm), "add it to Others")
	require.NoError(c, m.Add(cm))
	ctx, stop := context.WithCancel(c.ctx)
	c.run(ctx, name, m)
	return link, stop
}

func (c *company) kubelet() {
	c.Helper()
	m, err := manager.New(&config.Config{Host: c.endpoint.URL, Dial: c.endpoint.DialContext}, manager.Options{})
	require.NoError(c, err)
	kubelet, err := life.Kubelet(m.Factory(), readyAfter)
	require.NoError(c, err)
	require.NoError(c, m.Add(kubelet))
	c.run(c.ctx, "kubelet", m)
}

// branches are the namespaces. What differs comes first: the last letters change little of
// a hash.
func branches() (all []string) {
	for n := range 12 {
		all = append(all, fmt.Sprintf("%c-shop", 'a'+n))
	}
	return all
}

// want lets each namespace have a Deployment with so many Pods of an image.
func (c *company) want(image string, replicas int32) {
	c.Helper()
	for _, ns := range branches() {
		d := deployment(replicas)
		if now, err := c.srv.Get(deployments, object.Key{Namespace: ns, Name: web.Name}); err == nil {
			d = now.DeepCopyObject().(*appsv1.Deployment)
		}
		d.Namespace, d.Spec.Replicas = ns, &replicas
		d.Spec.Template.Spec.Containers[0].Image = image
		d.Generation++ // the test writes past the API
		_, err := c.srv.Put(d)
		require.NoError(c, err)
	}
}

// settled fails unless there are, after a time, so many available Pods of the image
// everywhere, and no others.
func (c *company) settled(after time.Duration, image string, replicas int32) {
	c.Helper()
	time.Sleep(after)
	synctest.Wait()
	got := map[string]int32{}
	for _, o := range c.srv.Objects(pods) {
		got[o.GetNamespace()+" "+o.(*corev1.Pod).Spec.Containers[0].Image]++
	}
	want := map[string]int32{}
	for _, ns := range branches() {
		want[ns+" "+image] = replicas
		d, err := c.srv.Get(deployments, object.Key{Namespace: ns, Name: web.Name})
		require.NoError(c, err)
		require.Equal(c, replicas, d.(*appsv1.Deployment).Status.AvailableReplicas, ns)
	}
	require.Equal(c, want, got)
}

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
)

// Programs that share the work roll out side by side, while one is cut off, others come and
// one leaves, and no two of them write in one slot.
func TestS01_ControllersThatShareWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		c := &company{srv: srv, endpoint: endpoint, net: network.New(1), ctx: ctx, ledger: &ledger{
			TB: t, epochs: map[int]uint64{}, terms: map[shard.Token]string{}, hands: map[int]int{}, writes: map[string]int{},
		}}
		defer c.runs.Wait()
		defer cancel()
		c.kubelet()
		c.want("one:1", 2)
		wire, _ := c.join("a")
		c.settled(time.Minute, "one:1", 2)

		_, stop := c.join("b")
		time.Sleep(20 * time.Second)
		c.want("two:2", 3)
		time.Sleep(5 * time.Second)
		wire.Set(network.Conditions{Partition: true})
		c.settled(2*time.Minute, "two:2", 3)

		wire.Set(network.Conditions{Latency: time.Millisecond})
		c.join("c")
		c.want("three:3", 2)
		time.Sleep(2 * time.Second)
		stop()
		c.settled(2*time.Minute, "three:3", 2)

		c.mu.Lock()
		defer c.mu.Unlock()
		t.Logf("writes: %v, terms: %d", c.writes, len(c.terms))
		for _, name := range strings.Fields("a b c") {
			require.Greater(t, c.writes[name], 20, "%s works", name)
		}
	})
}
