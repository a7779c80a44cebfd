package controllerruntime_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of TestSameAnswers")

// TestSameAnswers plays random changes and faults against a stock cache and a Millrace cache of one
// server. Their answers are equal once the server is quiet.
func TestSameAnswers(t *testing.T) {
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	for name, opts := range map[string]cache.Options{
		"all": {},
		"namespaces": {DefaultNamespaces: map[string]cache.Config{
			"ns0": {}, "ns1": {LabelSelector: web}, cache.AllNamespaces: {},
		}},
		"a kind": {ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: web}}},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, newCache, func(r *rig) {
				r.Logf("-seed %d", *seed)
				rng := rand.New(rand.NewPCG(*seed, 0))
				ours, theirs := r.cache(opts), r.theirs(opts)
				for _, c := range []cache.Cache{ours, theirs} {
					require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "spec.nodeName", nodeOf))
					r.start(c)
				}
				for range 10 {
					for range 30 {
						r.change(rng)
					}
					settle(5 * time.Minute)
					require.Equal(r, r.answers(theirs), r.answers(ours))
				}
				r.srv.Down()
				synctest.Wait()
			})
		})
	}
}

// theirs returns a stock cache of the same server.
func (r *rig) theirs(opts cache.Options) cache.Cache {
	r.Helper()
	c, err := stock.newCache(r.cfg, opts)
	require.NoError(r, err)
	return c
}

const (
	namespaces = 3
	perSpace   = 5
)

// change makes a random change on the server.
func (r *rig) change(rng *rand.Rand) {
	r.Helper()
	p := pod(fmt.Sprint("ns", rng.IntN(namespaces)), fmt.Sprint("p", rng.IntN(perSpace)), []string{"web", "db"}[rng.IntN(2)])
	switch rng.IntN(12) {
	case 0:
		settle(time.Duration(rng.IntN(100)) * time.Millisecond)
	case 1:
		r.srv.Restart()
	case 2:
		r.srv.Compact()
		r.srv.Restart()
	case 3, 4, 5:
		_ = r.srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), key(p.Namespace, p.Name)) // if it exists
	default:
		r.put(p)
	}
}

// answers returns the results of all kinds of reads.
func (r *rig) answers(c client.Reader) []string {
	r.Helper()
	var all []string
	for _, in := range []string{"", "ns0", "ns1", "ns2"} {
		for _, app := range []string{"web", "db"} {
			opts := []client.ListOption{client.InNamespace(in), client.MatchingLabels{"app": app}}
			all = append(all, fmt.Sprint(in, " ", app, ": ", r.names(c, opts...)))
			opts = append(opts, client.MatchingFields{"spec.nodeName": "node-" + app})
			all = append(all, fmt.Sprint(in, " node of ", app, ": ", r.names(c, opts...)))
		}
		all = append(all, fmt.Sprint(in, ": ", r.names(c, client.InNamespace(in))))
	}
	for n := range namespaces * perSpace {
		k := key(fmt.Sprint("ns", n%namespaces), fmt.Sprint("p", n/namespaces))
		var p corev1.Pod
		err := c.Get(r.ctx, k, &p)
		all = append(all, fmt.Sprint(k, ": ", p.UID, " ", p.ResourceVersion, " ", err))
	}
	return all
}
