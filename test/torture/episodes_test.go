package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/rest"
)

// episode causes a fault, checks the reports about it, and repairs it.
type episode struct {
	kind string
	slow bool // takes more than about ten seconds
	play func(w *world, ctx context.Context)
}

// hold waits for a random time between least and most.
func (w *world) hold(least, most time.Duration) {
	time.Sleep(least + time.Duration(w.random.Int64N(int64(most-least+1))))
}

// links calls do for each link to clients.
func (w *world) links(do func(l *link)) {
	do(w.front)
	do(w.certs)
}

func (w *world) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

// through sends the clients of the front link through the gateway during a function.
func (w *world) through(do misdeed, during func()) {
	w.gateway.behave(do)
	w.front.lead(to(w.gateway.address))
	w.front.cutAll()
	during()
	w.gateway.behave(nil)
	w.front.lead(anyOf(w.hosts()...))
	if w.random.IntN(2) == 0 { // otherwise they stay with a working gateway
		w.front.cutAll()
	}
}

// broken matches the errors of a client about a broken connection.
const broken = `EOF|connection reset|broken pipe|connection lost|GOAWAY|use of closed`

// episodes are the kinds of episodes that can be played everywhere.
var episodes = []episode{
	{"connections are reset", false, func(w *world, _ context.Context) {
		// A watch that has just ended normally has nothing to report, and requests that net/http
		// retries itself have not failed. Then the next reset is reported.
		w.again(5*time.Second, func() { w.links((*link).cutAll) }, func() { w.informersSay(broken) })
	}},
	{"connections are reset at any byte", false, func(w *world, _ context.Context) {
		w.links(func(l *link) { l.set(weather{cut: 1 + w.random.IntN(30000)}) })
		w.hold(3*time.Second, 6*time.Second)
		w.informersSay(broken)
		w.links(func(l *link) { l.set(weather{}); l.cutAll() })
	}},
	{"connections are refused", false, func(w *world, _ context.Context) {
		w.links(func(l *link) { l.refuse(); l.cutAll() })
		w.informersSay(`no answer from 127\.0\.0\.1:\d+: dial tcp: connect: connection refused`)
		w.lateSays(`configmaps: (list|watch open): .*connection refused.*\d+ attempts`, "front")
		w.electorsSay(`connection refused`)
		w.links(func(l *link) { w.must(l.admit()) })
	}},
	{"connections are silent for a while", false, func(w *world, _ context.Context) {
		w.links(func(l *link) { l.set(weather{silent: true}) })
		w.lateSays(`configmaps: (InitialWatch|Listing) for \ds: no answer from 127\.0\.0\.1:\d+ for \ds \(TLS handshake\)`, "front")
		w.hold(0, 5*time.Second)
		w.links(func(l *link) { l.set(weather{}) })
	}},
	{"connections are half-open", true, func(w *world, _ context.Context) {
		w.links(func(l *link) { l.set(weather{lost: true}) })
		time.Sleep(time.Second)
		w.links(func(l *link) { l.set(weather{}) }) // new ones work, old ones stay dead
		w.electorsSay(`no answer`)
	}},
	{"connections are slow", false, func(w *world, _ context.Context) {
		w.links(func(l *link) { l.set(weather{rate: 500 + w.random.IntN(2000)}) })
		w.links((*link).cutAll)
		w.lateSays(`configmaps: (InitialWatch|Listing|BackingOff)`, "certs")
		w.hold(0, 4*time.Second)
		w.links(func(l *link) { l.set(weather{}) })
	}},
	{"a byte is another", false, func(w *world, _ context.Context) {
		w.links(func(l *link) { l.set(weather{flip: 1500 + w.random.IntN(4000)}); l.cutAll() })
		w.informersSay(`tls: |record|` + broken)
		w.hold(0, 3*time.Second)
		w.links(func(l *link) { l.set(weather{}); l.cutAll() })
	}},
	{"a gateway answers 429", false, func(w *world, _ context.Context) {
		w.through(busy(fmt.Sprint(1+w.random.IntN(2))), func() {
			w.informersSay(`429 Too Many Requests|too many`, "front")
			w.lateSays(`configmaps: .*too many`, "front")
			w.electorsSay(`too many`)
		})
	}},
	{"a gateway answers 502 with a page", false, func(w *world, _ context.Context) {
		w.through(page(http.StatusBadGateway, "Bad gateway, sorry"), func() {
			w.informersSay(`502 Bad Gateway from 127\.0\.0\.1:\d+ with .*Bad gateway, sorry`, "front")
			w.lateSays(`configmaps: .*502 Bad Gateway`, "front")
			w.electorsSay(`502 Bad Gateway`)
		})
	}},
	{"a captive portal answers 200", false, func(w *world, _ context.Context) {
		w.through(page(http.StatusOK, "Welcome to our wireless"), func() {
			w.informersSay(`Welcome to our wireless`, "front")
			w.lateSays(`configmaps: .*Welcome to our wireless`, "front")
			w.electorsSay(`Welcome to our wireless`)
		})
	}},
	{"another API answers", false, func(w *world, _ context.Context) {
		w.through(foreign, func() {
			w.informersSay(`Lamp`, "front")
			w.lateSays(`configmaps: .*Lamp`, "front")
		})
	}},
	{"answers are cut short", false, func(w *world, _ context.Context) {
		w.gateway.limit.Store(int64(200 + w.random.IntN(20000)))
		w.through(nil, func() {
			w.hold(3*time.Second, 6*time.Second)
			w.anybodySays(`EOF|INTERNAL_ERROR|stream error|closed before its end|closed the watch within a second`)
			w.gateway.limit.Store(0)
			w.front.cutAll() // or a new watch would end in the next episode
		})
	}},
	{"the certificate is not valid yet", false, func(w *world, _ context.Context) {
		good := w.gateway.shown.Load()
		w.gateway.shown.Store(w.pair(w.authority(), 25*time.Hour)) // as if our clock were slow
		w.through(nil, func() {
			w.informersSay(`certificate has expired or is not yet valid`, "front")
			w.lateSays(`configmaps: .*is not yet valid`, "front")
			w.electorsSay(`not yet valid`)
			w.gateway.shown.Store(good)
		})
	}},
	{"a server is killed", false, func(w *world, ctx context.Context) {
		n := w.random.IntN(2)
		w.servers[n].Kill()
		w.hold(time.Second, 4*time.Second)
		w.must(w.servers[n].Restart(ctx))
	}},
	{"both servers are killed", false, func(w *world, ctx context.Context) {
		w.must(w.both(func(s *envtest.Server) error { s.Kill(); return nil }))
		w.informersSay(broken + `|502 Bad Gateway`) // the gateway's text
		w.lateSays(`configmaps: .*(`+broken+`)`, "front")
		w.electorsSay(broken + `|502 Bad Gateway`)
		w.must(w.both(func(s *envtest.Server) error { return s.Restart(ctx) }))
	}},
	{"a server is suspended", false, func(w *world, _ context.Context) {
		n := w.random.IntN(2)
		w.must(w.servers[n].Suspend())
		w.links(func(l *link) { l.cutSome(func() bool { return w.random.IntN(3) == 0 }) })
		w.hold(4*time.Second, 10*time.Second)
		w.must(w.servers[n].Resume())
	}},
	{"the only server is suspended", true, func(w *world, _ context.Context) {
		n := w.random.IntN(2)
		w.must(w.servers[n].Suspend())
		w.links(func(l *link) { l.lead(to(w.hosts()[n])); l.cutAll() })
		w.lateSays(`no answer from 127\.0\.0\.1:\d+ for \ds \(TLS handshake\)`, "front")
		w.informersSay(`no answer from 127\.0\.0\.1:\d+ for \d+s \(TLS handshake\)|TLS handshake timeout`)
		w.electorsSay(`no answer`)
		w.must(w.servers[n].Resume())
		w.links(func(l *link) { l.lead(anyOf(w.hosts()...)) })
	}},
	{"a server is suspended for long", true, func(w *world, _ context.Context) {
		n := w.random.IntN(2)
		w.must(w.servers[n].Suspend())
		w.hold(50*time.Second, 70*time.Second)
		w.must(w.servers[n].Resume())
	}},
	{"a server lags", false, func(w *world, _ context.Context) {
		behind := w.random.IntN(2)
		w.links(func(l *link) { l.lead(to(w.hosts()[1-behind])); l.cutAll() })
		w.hold(time.Second, 2*time.Second)
		w.store[behind].set(weather{silent: true})
		w.hold(time.Second, 3*time.Second)
		w.links(func(l *link) { l.lead(to(w.hosts()[behind])); l.cutAll() }) // back in time
		w.hold(2*time.Second, 6*time.Second)
		w.store[behind].set(weather{})
		w.links(func(l *link) { l.lead(anyOf(w.hosts()...)) })
	}},
	{"the servers' connections to etcd are reset", false, func(w *world, _ context.Context) {
		for range 3 {
			w.store[w.random.IntN(2)].cutAll()
			w.hold(0, time.Second)
		}
	}},
	{"etcd is killed", false, func(w *world, ctx context.Context) {
		w.etcd.Kill()
		w.hold(time.Second, 4*time.Second)
		w.must(w.etcd.Restart(ctx))
	}},
	{"etcd is suspended", false, func(w *world, _ context.Context) {
		w.must(w.etcd.Suspend())
		w.links(func(l *link) { l.cutSome(func() bool { return w.random.IntN(2) == 0 }) })
		w.electorsSay(`no answer|deadline|time`)
		w.hold(0, 5*time.Second)
		w.must(w.etcd.Resume())
	}},
	{"etcd is full", true, func(w *world, ctx context.Context) {
		fill(w, ctx)
		w.electorsSay(`database space exceeded`)
		w.controllerSays(`database space exceeded`)
		if err := w.late("front", 10*time.Second); err != nil {
			w.complain("what is full can be read, but: %v", err)
		}
		empty(w, ctx)
	}},
	{"history is compacted", false, func(w *world, ctx context.Context) {
		w.links(func(l *link) { l.refuse(); l.cutAll() })
		w.hold(time.Second, 3*time.Second)
		w.must(w.both(func(s *envtest.Server) error { s.Kill(); return nil }))
		_, err := w.etcd.Compact(ctx)
		w.must(err)
		w.must(w.both(func(s *envtest.Server) error { return s.Restart(ctx) }))
		w.links(func(l *link) { w.must(l.admit()) })
		w.informersSay(`[Ee]xpired|too old resource version`)
	}},
	{"the certificates are replaced", false, func(w *world, _ context.Context) {
		a := w.rotate()
		w.gateway.shown.Store(w.pair(a, 0))
		w.awaitCertificate(a)
		w.links((*link).cutAll)
		w.informersSay(`certificate signed by unknown authority`)
		w.lateSays(`configmaps: .*certificate signed by unknown authority`, "front")
		w.electorsSay(`unknown authority`)
		w.issueClient(a)
		replaceFile(w.t, w.files+"/ca.crt", a.pem)
	}},
	{"the token is revoked", true, func(w *world, ctx context.Context) {
		w.discharge(ctx)
		time.Sleep(11 * time.Second) // the servers cache it for that long
		w.front.cutAll()
		w.informersSay(`[Uu]nauthorized`, "front")
		w.lateSays(`configmaps: .*[Uu]nauthorized`, "front")
		w.electorsSay(`[Uu]nauthorized`)
		w.enlist(ctx)
	}},
	{"rights are taken away", false, func(w *world, ctx context.Context) {
		w.forbid(ctx)
		time.Sleep(500 * time.Millisecond)
		w.front.cutAll()
		w.informersSay(`forbidden: .*User "system:serviceaccount:default:runner" cannot (list|watch)`, "front")
		w.lateSays(`configmaps: .*forbidden: configmaps is forbidden`, "front")
		w.electorsSay(`forbidden`)
		w.allow(ctx)
	}},
	{"a kind goes and comes", false, func(w *world, ctx context.Context) {
		w.undefine(ctx)
		w.gadgetsSay(`not served|NotFound|could not find|no match`)
		w.hold(0, 2*time.Second)
		w.define(ctx, w.random.IntN(1000))
	}},
	{"a kind changes", false, func(w *world, ctx context.Context) {
		w.redefine(ctx, w.random.IntN(1000))
		w.hold(time.Second, 3*time.Second)
	}},
}

// gadgetsSay is informersSay for the informers of the custom resource.
func (w *world) gadgetsSay(words string) {
	all := w.subjects
	defer func() { w.subjects = all }()
	w.subjects = nil
	for _, f := range all {
		if strings.Contains(f.Name(), "gadgets") {
			w.subjects = append(w.subjects, f)
		}
	}
	w.informersSay(words)
}

// fill writes unwatched objects until the server accepts no more.
func fill(w *world, ctx context.Context) {
	revisions := rest.ResourceFor[*appsv1.ControllerRevision](w.direct[0]).Namespace("default")
	for n := 0; ; n++ {
		_, err := revisions.Create(ctx, large(n), metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "database space exceeded") {
			return
		}
		w.must(err)
		require.Less(w.t, n, 2*quota>>20, "etcd takes more than its quota")
	}
}

// large returns an object of a megabyte.
func large(revision int) *appsv1.ControllerRevision {
	data := fmt.Appendf(nil, `{"x": %q}`, strings.Repeat("x", 1<<20))
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "large-"}, Data: runtime.RawExtension{Raw: data}, Revision: int64(revision),
	}
}

// empty deletes the objects that fill wrote and makes etcd free the space.
func empty(w *world, ctx context.Context) {
	revisions := rest.ResourceFor[*appsv1.ControllerRevision](w.direct[0]).Namespace("default")
	err := errors.New("not tried")
	for tries := 0; err != nil && tries < 6; tries++ { // the client gives up after ten seconds
		err = revisions.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	w.must(err)
	_, err = w.etcd.Compact(ctx)
	w.must(err)
	w.must(w.etcd.Defragment(ctx))
}

// deck draws kinds in random order, each once before any is repeated.
type deck struct {
	random *rand.Rand
	from   []episode
	left   []episode
}

func (d *deck) draw() episode {
	if len(d.left) == 0 {
		d.left = append(d.left, d.from...)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	next := d.left[0]
	d.left = d.left[1:]
	return next
}
