package soak

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/object"
)

var (
	podGVR       = object.GVR{Version: "v1", Resource: "pods"}
	configMapGVR = object.GVR{Version: "v1", Resource: "configmaps"}
	eventGVR     = object.GVR{Group: "events.k8s.io", Version: "v1", Resource: "events"}
)

// cluster is a server and the replicas of the program. Its faults and changes are drawn from a seed
// and applied by one goroutine.
type cluster struct {
	t        *testing.T
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	replicas []*program
	random   *rand.Rand
	keys     []object.Key // of the Pods
	changes  int

	reconciles, terms, leaders atomic.Int64

	mu sync.Mutex // guards the managers of replicas
}

func newCluster(t *testing.T, pods int) *cluster {
	c := &cluster{t: t, srv: apiservertest.New(apiservertest.Options{Seed: 1, History: 500}), random: rand.New(rand.NewPCG(1, 2))}
	endpoint, err := c.srv.Pipe()
	require.NoError(t, err)
	c.endpoint = endpoint
	for range pods {
		c.keys = append(c.keys, object.Key{})
		c.replace(len(c.keys) - 1)
	}
	net := network.New(1)
	for _, called := range []string{"first", "second"} {
		link := net.Link(called)
		link.Set(network.Conditions{Latency: 2 * time.Millisecond})
		c.replicas = append(c.replicas, &program{cluster: c, called: called, link: link})
	}
	return c
}

func (c *cluster) start() {
	for _, p := range c.replicas {
		p.start()
		time.Sleep(time.Second)
	}
}

func (c *cluster) stop() {
	for _, p := range c.replicas {
		p.stop()
	}
	c.srv.Close()
}

// replace replaces a Pod by one with a new name.
func (c *cluster) replace(n int) {
	c.changes++
	if old := c.keys[n]; old.Name != "" {
		require.NoError(c.t, c.srv.Delete(podGVR, old))
	}
	c.keys[n] = object.Key{Namespace: fmt.Sprint("ns-", n%20), Name: fmt.Sprintf("pod-%d-%d", n, c.changes)}
	c.put(n)
}

// put changes the content of a Pod.
func (c *cluster) put(n int) {
	c.changes++
	_, err := c.srv.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.keys[n].Namespace, Name: c.keys[n].Name, Labels: map[string]string{"content": fmt.Sprint(c.changes), "app": fmt.Sprint("app-", n%50)}},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprint("node-", c.random.IntN(200)),
			Containers: []corev1.Container{{Name: "main", Image: fmt.Sprint("registry.example/app:", n%50)}},
		},
	})
	require.NoError(c.t, err)
}

// day applies a day of changes and some 25 faults, which may make it longer.
func (c *cluster) day(length time.Duration, changes int) {
	trouble := time.Now()
	for range changes {
		time.Sleep(length / time.Duration(changes))
		if who := c.random.IntN(len(c.keys)); c.random.IntN(3) == 0 {
			c.replace(who)
		} else {
			c.put(who)
		}
		if time.Since(trouble) > length/25 {
			trouble = time.Now()
			do := troubles[c.random.IntN(len(troubles))]
			do(c)
		}
	}
	c.heal()
}

// troubles are the faults that happen now and then.
var troubles = []func(*cluster){
	func(c *cluster) { c.anyone().link.Cut() },
	func(c *cluster) { c.anyone().link.Vanish() },
	func(c *cluster) { c.srv.Compact(); c.srv.Restart() },
	func(c *cluster) { c.srv.RestartCold(0) },
	func(c *cluster) { c.srv.Down(); time.Sleep(4 * time.Minute); c.srv.Up() },
	func(c *cluster) {
		link := c.anyone().link
		link.Set(network.Conditions{Latency: 2 * time.Millisecond, Partition: true})
		time.Sleep(3 * time.Minute)
		link.Set(network.Conditions{Latency: 2 * time.Millisecond})
	},
	func(c *cluster) {
		c.srv.SetAuthorizer(apiservertest.Deny("", "pods", "list", "watch"))
		c.srv.Restart()
		time.Sleep(10 * time.Minute)
		c.srv.SetAuthorizer(nil)
	},
	func(c *cluster) { c.fault(apiservertest.Fail{Code: 429, RetryAfter: "2"}) },
	func(c *cluster) { c.fault(apiservertest.Fail{Code: 500}) },
	func(c *cluster) { c.fault(apiservertest.Garble{Frame: 1}) },
	func(c *cluster) { c.fault(apiservertest.Truncate{Frame: 2}) },
	func(c *cluster) { c.fault(apiservertest.WrongType{Frame: 0}) },
	func(c *cluster) { c.fault(apiservertest.Cut{AfterBytes: 900}) },
	func(c *cluster) { c.fault(apiservertest.Duplicate{Every: 2}); c.srv.Restart() },
	func(c *cluster) {
		p := c.anyone()
		p.stop()
		time.Sleep(time.Minute)
		p.start()
	},
}

func (c *cluster) anyone() *program { return c.replicas[c.random.IntN(len(c.replicas))] }

// fault makes the next requests of any kind fail.
func (c *cluster) fault(do apiservertest.Action) {
	c.srv.Faults().Add(apiservertest.Fault{Count: 20, Do: []apiservertest.Action{do}})
}

// heal ends all faults, and deletes the Events that a real server would expire.
func (c *cluster) heal() {
	c.srv.Faults().Clear()
	for _, e := range c.srv.Objects(eventGVR) {
		require.NoError(c.t, c.srv.Delete(eventGVR, object.KeyOf(e)))
	}
}

// midnight waits until the day is over, and checks the state.
func (c *cluster) midnight(day int) {
	time.Sleep(15 * time.Minute)
	synctest.Wait()
	require.EqualValues(c.t, 1, c.leaders.Load(), "leaders at the end of day %d", day+1)
	want, got := map[object.Key]string{}, map[object.Key]string{}
	for _, o := range c.srv.Objects(podGVR) {
		want[object.KeyOf(o)] = o.GetLabels()["content"]
	}
	for _, o := range c.srv.Objects(configMapGVR) {
		got[object.KeyOf(o)] = o.(*corev1.ConfigMap).Data["content"]
	}
	require.Len(c.t, want, len(c.keys))
	require.Equal(c.t, want, got, "copies at the end of day %d", day+1)
}
