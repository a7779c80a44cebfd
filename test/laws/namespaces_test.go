package laws

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// in returns options for an informer of the given namespaces.
func in(namespaces ...string) sharedinformer.Options {
	return sharedinformer.Options{Namespaces: namespaces}
}

func podIn(namespace, name string, labels ...string) *corev1.Pod {
	p := pod(name, labels...)
	p.Namespace = namespace
	return p
}

// truthIn returns the content of the server in the given namespaces.
func (r *rig) truthIn(namespaces ...string) map[string]string {
	truth := r.truth()
	for key := range truth {
		namespace, _, _ := strings.Cut(key, "/")
		if !slices.Contains(namespaces, namespace) && !slices.Contains(namespaces, metav1.NamespaceAll) {
			delete(truth, key)
		}
	}
	return truth
}

// forbid denies everyone access to the pods of the given namespaces.
func (r *rig) forbid(namespaces ...string) {
	r.srv.SetAuthorizer(func(a apiservertest.Attributes) bool {
		return a.Resource != "pods" || !slices.Contains(namespaces, a.Namespace)
	})
}

// There is one cache and one sequence of events for all namespaces. Objects of an added namespace arrive
// as initial Adds; objects of a removed namespace leave as Deletes with their last known state.
func TestL03_NamespacesComeAndGo(t *testing.T) {
	for name, opts := range map[string]sharedinformer.Options{"list": listing(), "stream": streaming()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				for _, namespace := range []string{"bank", "mail", "shop"} {
					r.put(podIn(namespace, namespace+"-1"))
				}
				opts.Namespaces = []string{"shop", "bank", "shop"}
				i := r.informer(opts)
				h := record(r, i)
				i.AddHandler(h)
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				require.Equal(r, []string{"bank", "shop"}, i.Namespaces())
				require.ElementsMatch(r, []string{"add bank-1 initial", "add shop-1 initial"}, h.heard())
				r.put(podIn("mail", "mail-2")) // not one of the informer's
				r.put(podIn("shop", "shop-2"))
				require.Equal(r, []string{"add shop-2"}, h.heard())

				shop1, _ := i.Cache().Get(object.Key{Namespace: "shop", Name: "shop-1"})
				r.fault("", apiservertest.Delay{For: time.Second}) // or it might have synced already
				require.NoError(r, i.SetNamespaces([]string{"mail", "shop"}))
				require.False(r, i.HasSynced())
				require.Empty(r, i.Cache().RV())
				r.srv.Faults().Clear()
				require.NoError(r, i.WaitForSync(r.ctx))
				require.ElementsMatch(r, []string{"delete bank-1", "add mail-1 initial", "add mail-2 initial"}, h.heard())
				require.Equal(r, r.truthIn("mail", "shop"), cached(i))
				same, _ := i.Cache().Get(object.KeyOf(shop1))
				require.Same(r, shop1, same)
				require.Equal(r, 2, r.srv.Stats().Open("watch", "pods"))

				require.NoError(r, i.SetNamespaces([]string{}))
				require.NoError(r, i.WaitForSync(r.ctx))
				require.Len(r, h.heard(), 4)
				require.Zero(r, i.Cache().Len())
				synctest.Wait()
				require.Zero(r, r.srv.Stats().Open("watch", "pods"))
				require.Equal(r, "pods in no namespace", i.Name())

				require.NoError(r, i.SetNamespaces([]string{"bank"}))
				require.NoError(r, i.WaitForSync(r.ctx))
				require.Equal(r, []string{"add bank-1 initial"}, h.heard())
				require.Equal(r, "pods in namespace bank", i.Name())
			})
		})
	}
}

// An object that is wanted before and after a change of the namespaces is not deleted in between, and a
// stale list from the server's watch cache reverts nothing.
func TestL03_FromAllNamespacesToSomeAndBack(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, namespace := range []string{"bank", "mail", "shop"} {
			r.put(podIn(namespace, namespace+"-1"))
		}
		source := &spy[*corev1.Pod]{ListerWatcher: r.source().Source()}
		opts := listing()
		opts.Namespaces = []string{metav1.NamespaceAll}
		i := newInformer[*corev1.Pod](source, opts)
		h := record(r, i)
		i.AddHandler(h)
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Len(r, h.heard(), 3)
		require.Equal(r, "0", source.heard()[0].opts.ResourceVersion)

		require.NoError(r, i.SetNamespaces([]string{"shop", "mail"}))
		r.put(podIn("shop", "shop-1", "n=2"))
		require.NoError(r, i.WaitForSync(r.ctx))
		require.ElementsMatch(r, []string{"delete bank-1", "update shop-1"}, h.heard())
		require.Equal(r, r.truthIn("shop", "mail"), cached(i))
		for _, a := range source.heard() {
			require.NotEqual(r, "0", a.opts.ResourceVersion, "%+v", a)
		}

		require.NoError(r, i.SetNamespaces([]string{"shop", metav1.NamespaceAll}))
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Equal(r, []string{"add bank-1 initial"}, h.heard())
		r.inStep(i)
	})
}

// A namespace is in the cache entirely or not at all, whatever happens in the others.
func TestL12_ANamespaceIsReplacedWhole(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		const size = 20
		put := func(generation int) {
			for n := range size {
				r.put(podIn("shop", fmt.Sprint("p", n), fmt.Sprint("gen=", generation)))
			}
		}
		put(0)
		r.put(podIn("bank", "b", "n=0"))
		opts := listing()
		opts.Namespaces = []string{"bank", "shop"}
		i := r.informer(opts)
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		untouched, _ := i.Cache().Get(object.Key{Namespace: "bank", Name: "b"})
		i.AddHandler(handler(func(e event) {
			seen := map[string]int{}
			for p := range i.Cache().Namespace("shop") {
				seen[p.Labels["gen"]]++
			}
			if generation := e.Object.Labels["gen"]; e.Object.Namespace == "shop" && seen[generation] != size {
				r.Errorf("a mixture: %v", seen)
			}
		}))
		r.srv.Down()
		put(1)
		r.srv.Compact()
		r.srv.Up()
		settle(time.Minute)
		require.Equal(r, r.truth(), cached(i))
		require.EqualValues(r, 2, i.Status().Reflector.Relists)
		same, _ := i.Cache().Get(object.KeyOf(untouched))
		require.Same(r, untouched, same)
	})
}

// The version promised for all namespaces is the lowest of their versions. Each namespace also has its
// own version.
func TestL13_VersionIsTheLowestOfTheNamespaces(t *testing.T) {
	inBubble(t, apiservertest.Options{BookmarkPeriod: time.Minute}, func(r *rig) {
		r.put(podIn("bank", "b"))
		first := r.put(podIn("shop", "s"))
		i := r.informer(in("bank", "shop"))
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Equal(r, first, i.Cache().RV())

		written := r.put(podIn("shop", "s", "n=1"))
		began := time.Now()
		require.NoError(r, i.WaitForRV(r.ctx, written, "shop")) // L14
		require.Zero(r, time.Since(began))
		require.Equal(r, written, i.Cache().NamespaceRV("shop"))
		require.Equal(r, first, i.Cache().NamespaceRV("bank"))
		require.Equal(r, first, i.Cache().RV())
		require.Equal(r, first, i.Status().RV)
		require.NoError(r, i.WaitForRV(r.ctx, written), "a bookmark tells bank that it has missed nothing")
		r.within(time.Second, time.Minute, time.Since(began))

		slow := r.fault("", apiservertest.Delay{For: time.Second}) // or mail might have synced already
		require.NoError(r, i.SetNamespaces([]string{"bank", "shop", "mail"}))
		require.Empty(r, i.Cache().RV(), "nothing is known of mail")
		r.srv.Faults().Remove(slow)
		require.Equal(r, written, i.Cache().NamespaceRV("shop"))
		require.NoError(r, i.WaitForRV(r.ctx, written))
		require.NoError(r, i.SetNamespaces([]string{"shop"}))
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Equal(r, i.Cache().NamespaceRV("shop"), i.Cache().RV())
	})
}

// Each namespace resumes and lists independently.
func TestL19_OnlyTheExpiredNamespaceListsAgain(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, namespace := range []string{"bank", "mail", "shop"} {
			r.put(podIn(namespace, "p"))
		}
		i := r.informer(in("bank", "mail", "shop"))
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		r.once("watch", apiservertest.Fail{Code: 410})
		settle(20 * time.Minute)
		s := i.Status()
		require.EqualValues(r, 1, s.Reflector.Relists)
		require.EqualValues(r, 4, s.Reflector.Lists)
		require.Len(r, s.Namespaces, 3)
		require.True(r, i.HasSynced())
		require.Equal(r, r.truth(), cached(i))
	})
}

// A namespace that may not be read delays the sync, and the error names it. The others continue.
func TestL18_TheSyncCoversEveryNamespace(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, namespace := range []string{"bank", "mail", "shop"} {
			r.put(podIn(namespace, namespace+"-1"))
		}
		r.forbid("bank", "mail")
		i := r.informer(in("shop"))
		synced := 0
		h := record(r, i)
		registration := i.AddHandlerWith(h, sharedinformer.HandlerOptions{OnSync: func() { synced++ }})
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Equal(r, []string{"add shop-1 initial"}, h.heard())

		require.NoError(r, i.SetNamespaces([]string{"bank", "mail", "shop"}))
		require.False(r, i.HasSynced())
		require.False(r, registration.HasSynced())
		err := i.WaitForSync(r.ctx)
		require.ErrorIs(r, err, sharedinformer.ErrNotSynced) // L22
		require.True(r, apierrors.IsForbidden(err))
		require.Regexp(r, `(?s)pods in namespace bank: list: forbidden: .*in the namespace "bank".*pods in namespace mail: list: forbidden: .*in the namespace "mail"`, err.Error())
		require.NotContains(r, err.Error(), "shop")
		s := i.Status()
		require.Equal(r, "pods in several namespaces", s.Reflector.Resource)
		require.NotZero(r, s.Reflector.Attempts)
		require.Equal(r, reflector.Watching, s.Namespaces[2].State)
		require.Len(r, s.Unsynced(), 2)
		r.put(podIn("shop", "shop-2"))
		require.Equal(r, []string{"add shop-2"}, h.heard(), "the others go on")
		waited := make(chan error, 1)
		go func() { waited <- i.WaitForRV(r.ctx, after(r.srv.RVOf(pods)), "shop") }()
		settle(time.Hour)
		require.Empty(r, waited)
		r.put(podIn("shop", "shop-3"))
		require.NoError(r, <-waited) // L14
		require.Equal(r, []string{"add shop-3"}, h.heard())
		err = i.WaitForRV(r.ctx, "1", "shop", "mail")
		require.ErrorIs(r, err, sharedinformer.ErrNotSynced)
		require.Contains(r, err.Error(), "pods in namespace mail: list: forbidden: ")
		require.NotContains(r, err.Error(), "bank")

		r.forbid("mail")
		settle(time.Minute)
		require.Equal(r, []string{"add bank-1 initial"}, h.heard())
		require.False(r, i.HasSynced())
		require.Len(r, i.Status().Unsynced(), 1)
		require.NoError(r, i.SetNamespaces([]string{"bank", "shop"}), "nobody waits for mail any more")
		require.NoError(r, i.WaitForSync(r.ctx))
		require.True(r, registration.HasSynced())
		require.Empty(r, h.heard())
		require.Equal(r, 1, synced)
	})
}

// after is the resource version of the change after the one with rv.
func after(rv string) string {
	n, _ := strconv.Atoi(rv)
	return strconv.Itoa(n + 1)
}

// WaitForSync waits until the handlers have seen the added namespaces, including handlers that joined in
// between.
func TestL18_HandlersSyncAgain(t *testing.T) {
	for name, lag := range map[string]sharedinformer.Lag{"unbounded": sharedinformer.Unbounded, "coalesce": sharedinformer.Coalesce} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(podIn("bank", "b"))
				r.put(podIn("shop", "s"))
				i := r.informer(in("shop"))
				release := make(chan struct{})
				slow := i.AddHandlerWith(handler(func(e event) {
					if e.Object.Namespace == "bank" {
						<-release
					}
				}), sharedinformer.HandlerOptions{Lag: lag})
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				require.NoError(r, i.SetNamespaces([]string{"bank", "shop"}))
				late := i.AddHandlerWith(handler(func(event) {}), sharedinformer.HandlerOptions{Lag: lag})
				settle(30 * time.Second)
				require.True(r, i.HasSynced())
				require.True(r, late.HasSynced())
				require.False(r, slow.HasSynced())
				close(release)
				require.NoError(r, i.WaitForSync(r.ctx))
				require.True(r, slow.HasSynced())
			})
		})
	}
}

// All objects of a cluster-scoped kind are cached, without an error.
func TestL22_NamespacesOfAClusterScopedKind(t *testing.T) {
	for name, opts := range map[string]sharedinformer.Options{"list": listing(), "stream": streaming()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				for _, name := range []string{"n1", "n2"} {
					_, err := r.srv.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
					require.NoError(r, err)
				}
				opts.Namespaces = []string{"bank", "shop"}
				i := newInformer[*corev1.Node](rest.ResourceFor[*corev1.Node](r.client).Source(), opts)
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				require.Equal(r, 2, i.Cache().Len())
				require.Equal(r, "nodes", i.Name())
				require.NotEmpty(r, i.Cache().RV())
				require.NoError(r, i.SetNamespaces([]string{"mail"}))
				require.NoError(r, i.WaitForSync(r.ctx))
				settle(time.Hour)
				require.Equal(r, 2, i.Cache().Len())
				require.Zero(r, i.Status().Reflector.Failures)
				require.Equal(r, 1, r.srv.Stats().Open("watch", "nodes"))
			})
		})
	}
}

// If a kind is installed later, it is found in all namespaces once it is found in one.
func TestL17_NamespacesDiscoverAKindTogether(t *testing.T) {
	widgets := apiservertest.Resource{GVR: object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Namespaced: true}
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		synced := map[string]time.Time{}
		var mu sync.Mutex
		opts := in("a", "b", "c", "d", "e", "f")
		opts.OnState = func(s reflector.Status) {
			mu.Lock()
			defer mu.Unlock()
			if _, before := synced[s.Resource]; s.State == reflector.Watching && !before {
				synced[s.Resource] = time.Now()
			}
		}
		i := newInformer[untyped](rest.ResourceForKind[untyped](r.client, widgets.GVK()).Source(), opts)
		defer r.run(i)()
		settle(10 * time.Minute)
		require.NoError(r, r.srv.AddResource(widgets))
		settle(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		require.Len(r, synced, 6)
		var times []time.Time
		for _, at := range synced {
			times = append(times, at)
		}
		slices.SortFunc(times, time.Time.Compare)
		require.Less(r, times[5].Sub(times[0]), time.Second)
	})
}

// wide is a source that reads all namespaces and cannot be limited to one.
type wide struct{ source.ListerWatcher }

func (wide) Describe() source.Description { return source.Description{Name: "pods"} }

func TestL22_SourceThatCannotBeLimitedToANamespace(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i := sharedinformer.New[*corev1.Pod](wide{r.source().Source()}, in("shop"))
		defer r.run(i)()
		require.ErrorContains(r, i.WaitForSync(r.ctx), "pods cannot be limited to a namespace: its Description does not set Narrows")
		whole := sharedinformer.New[*corev1.Pod](wide{r.source().Source()}, sharedinformer.Options{})
		require.ErrorContains(r, whole.SetNamespaces([]string{"shop"}), "SetNamespaces: pods cannot be limited to a namespace: its Description does not set Narrows")
		require.Equal(r, []string{metav1.NamespaceAll}, whole.Namespaces())
	})
}

// A stopped informer keeps the objects of every namespace, and changes made meanwhile take effect in the
// next run.
func TestL24_NamespacesOfAStoppedInformer(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, namespace := range []string{"bank", "mail", "shop"} {
			r.put(podIn(namespace, namespace+"-1"))
		}
		i := r.informer(in("bank", "shop"))
		h := record(r, i)
		i.AddHandler(h)
		require.NoError(r, i.SetNamespaces([]string{"bank", "mail", "shop"}))
		require.NoError(r, i.SetNamespaces([]string{"bank", "shop"}))
		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		require.Len(r, h.heard(), 2)
		stop()
		require.NoError(r, i.SetNamespaces([]string{"mail", "shop"}))
		require.Equal(r, r.truthIn("bank", "shop"), cached(i))
		require.ErrorIs(r, i.WaitForSync(r.ctx), sharedinformer.ErrStopped)
		r.put(podIn("shop", "shop-2"))
		lists := i.Status().Namespaces[1].Lists

		stop = r.run(i)
		synctest.Wait()
		require.NoError(r, i.WaitForSync(r.ctx))
		require.ElementsMatch(r, []string{"delete bank-1", "add mail-1 initial", "add shop-2"}, h.heard())
		require.Equal(r, lists, i.Status().Namespaces[1].Lists, "shop has resumed")
		stop()
	})
}

// The bubble checks L23: no goroutine may remain.
func TestL23_NamespacesChangeWhileTheInformerStops(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		random := rand.New(rand.NewPCG(23, 1))
		i := r.informer(in())
		i.AddHandler(record(r, i))
		for range 50 {
			stop := r.run(i)
			done, quiet := make(chan struct{}), random.IntN(2) == 0
			sets := make([][]string, 10)
			for n := range sets {
				sets[n] = someOf(random)
			}
			go func() {
				defer close(done)
				for _, set := range sets {
					_ = i.SetNamespaces(set)
				}
			}()
			if quiet {
				synctest.Wait()
			}
			stop()
			<-done
		}
	})
}

var three = []string{"bank", "mail", "shop"}

// someOf returns some of three namespaces, and sometimes all.
func someOf(random *rand.Rand) []string {
	set := []string{}
	for _, namespace := range three {
		if random.IntN(2) == 0 {
			set = append(set, namespace)
		}
	}
	if random.IntN(8) == 0 {
		set = append(set, metav1.NamespaceAll)
	}
	return set
}

// The order of the namespaces in a set does not matter, and different sets mean different informers. A
// request without namespaces uses the factory's namespaces.
func TestL25_OneInformerForOneSetOfNamespaces(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		for _, namespace := range three {
			r.put(podIn(namespace, namespace+"-1"))
		}
		f, stop := r.started(factory.Options{Namespaces: []string{"shop", "bank"}})
		defer stop()
		of := func(namespaces ...string) podsCache {
			return factory.InformerWith(f, forPods{Scope: podScope{Namespaces: namespaces}})
		}
		pair := of("mail", "shop")
		for _, same := range []podsCache{of("shop", "mail"), of("mail", "shop", "mail")} {
			require.Same(r, pair, same)
		}
		one := of("mail")
		require.Same(r, one, factory.InformerWith(f, forPods{Scope: podScope{Namespaces: []string{"mail"}}}))
		all := of(metav1.NamespaceAll)
		require.Same(r, all, of("mail", metav1.NamespaceAll))
		following := factory.Informer[*corev1.Pod](f)
		require.NotSame(r, of("bank", "shop"), following, "that one stays")
		nodes := factory.Informer[*corev1.Node](f)
		require.NoError(r, f.WaitForSync(r.ctx))
		require.ElementsMatch(r, []string{"mail-1", "shop-1"}, namesOf(pair))
		require.ElementsMatch(r, []string{"mail-1"}, namesOf(one))
		require.ElementsMatch(r, []string{"bank-1", "mail-1", "shop-1"}, namesOf(all))
		require.ElementsMatch(r, []string{"bank-1", "shop-1"}, namesOf(following))

		require.NoError(r, f.SetNamespaces([]string{"mail"}))
		require.Same(r, following, factory.Informer[*corev1.Pod](f))
		require.NoError(r, f.WaitForSync(r.ctx))
		require.ElementsMatch(r, []string{"mail-1"}, namesOf(following))
		require.ElementsMatch(r, []string{"bank-1", "shop-1"}, namesOf(of("bank", "shop")))
		require.Equal(r, "nodes", nodes.Name())
		later := factory.Informer[*corev1.Service](f)
		require.Equal(r, []string{"mail"}, later.Namespaces())

		require.NoError(r, pair.SetNamespaces([]string{"bank", "shop"}))
		require.Same(r, pair, of("mail", "shop"))
		require.ErrorContains(r, f.WaitForSync(r.ctx), "the informer has others: change namespaces only with Factory.SetNamespaces")

		fixed := newFactory(r.client, factory.Options{})
		require.ErrorIs(r, fixed.SetNamespaces([]string{"shop"}), factory.ErrUndivided)
	})
}

// A namespace that was listed does not delay the wait, even if its watch fails.
func TestL22_WaitForSyncNamesOnlyUnsyncedNamespaces(t *testing.T) {
	for name, set := range map[string][]string{"one comes": {"bank", "mail", "shop"}, "one goes": {"bank"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				for _, namespace := range three {
					r.put(podIn(namespace, namespace+"-1"))
				}
				i := r.informer(in("bank", "shop"))
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				r.forbid("bank")
				r.srv.Restart()
				settle(10 * time.Minute)
				require.NoError(r, i.SetNamespaces(set))
				require.NoError(r, i.WaitForSync(r.ctx))
			})
		})
	}
}

// No version is promised for a namespace that is not watched.
func TestL14_WaitInANamespaceThatIsNotWatched(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, _ := r.synced(in("shop"))
		rv := r.put(podIn("bank", "mine"))
		r.put(podIn("shop", "s"))
		err := i.WaitForRV(r.ctx, rv, "bank")
		require.ErrorIs(r, err, sharedinformer.ErrNotWatched)
		require.ErrorContains(r, err, "in namespace bank")
		require.NoError(r, i.SetNamespaces([]string{"bank", "shop"}))
		require.NoError(r, i.WaitForRV(r.ctx, rv, "bank"))
	})
}

// Bad options are reported even without a namespace.
func TestL22_BadOptionsWithoutANamespace(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		opts := in()
		opts.Namespaces, opts.PageSize = []string{}, -1
		i := r.informer(opts)
		require.ErrorContains(r, i.WaitForSync(r.ctx), "PageSize")
		require.ErrorContains(r, i.Run(r.ctx), "PageSize")
		require.ErrorContains(r, i.WaitForSync(r.ctx), "PageSize")
		require.False(r, i.HasSynced())
	})
}
