package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/apiservertest"
)

// Each test in this file checks one sentence of client-go's documentation of SharedInformer. All
// sides comply.

func TestTheStoreIsEmptyAtFirstAndThenLikeTheServer(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		r.put(pod("b"))
		i := r.pods(0)
		require.Empty(r, i.GetStore().List())
		require.False(r, i.HasSynced())
		r.run(i)
		require.Equal(r, []string{"shop/a", "shop/b"}, keys(i.GetStore()))
		r.put(pod("c"))
		r.delete("a")
		r.label("b", "db")
		synctest.Wait()
		require.Equal(r, []string{"shop/b", "shop/c"}, keys(i.GetStore()))
		b, ok, err := i.GetStore().GetByKey("shop/b")
		require.NoError(r, err)
		require.True(r, ok)
		require.Equal(r, "b=db", describe(b))
		_, ok, err = i.GetStore().Get(pod("a"))
		require.NoError(r, err)
		require.False(r, ok)
	})
}

func TestTheStoreConvergesAfterFailures(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		r.run(i)
		for _, fault := range []apiservertest.Fault{
			{Verb: "watch", Count: 2, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}},
			{Verb: "watch", Count: 1, Do: []apiservertest.Action{apiservertest.Compacted{}}},
			{Verb: "list", Count: 1, Do: []apiservertest.Action{apiservertest.Fail{Code: 429, RetryAfter: "3"}}},
		} {
			r.srv.Faults().Add(fault)
		}
		r.missing(func() {
			r.put(pod("b"))
			r.delete("a")
		})
		require.Equal(r, []string{"shop/b"}, keys(i.GetStore()))
	})
}

func TestHandlerAddedBeforeRunReceivesEverything(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		d := &diary{}
		h, err := i.AddEventHandler(d)
		require.NoError(r, err)
		require.False(r, h.HasSynced())
		r.run(i)
		require.Equal(r, []string{"initial a=web"}, d.read())
		require.True(r, h.HasSynced())
		require.True(r, cache.IsDone(h.HasSyncedChecker()))
		require.NotEmpty(r, h.HasSyncedChecker().Name())
		r.put(pod("b"))
		r.label("a", "db")
		r.delete("a")
		require.Equal(r, []string{"add b=web", "update a=web to a=db", "delete a=db"}, d.read())
	})
}

func TestLateHandlerReceivesCachedObjectsFirst(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		r.run(i)
		d := &diary{}
		h, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.label("a", "db")
		require.Equal(r, []string{"initial a=web", "update a=web to a=db"}, d.read())
		require.True(r, h.HasSynced())
	})
}

func TestHandlerIsNotSyncedDuringTheInitialList(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		release := make(chan struct{})
		h, err := i.AddEventHandler(&diary{hook: func(string) { <-release }})
		require.NoError(r, err)
		r.run(i)
		require.True(r, i.HasSynced())
		require.False(r, h.HasSynced())
		close(release)
		synctest.Wait()
		require.True(r, h.HasSynced())
	})
}

func TestStoreAndIndexesAreUpdatedBeforeTheHandlerRuns(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		require.NoError(r, i.AddIndexers(cache.Indexers{"app": byApp}))
		var late atomic.Int32
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) {
				if _, ok, _ := i.GetStore().Get(o); !ok {
					late.Add(1)
				}
			},
			UpdateFunc: func(_, o any) {
				if found, _ := i.GetIndexer().ByIndex("app", o.(*corev1.Pod).Labels["app"]); len(found) == 0 {
					late.Add(1)
				}
			},
			DeleteFunc: func(o any) {
				if _, ok, _ := i.GetStore().Get(o); ok {
					late.Add(1)
				}
			},
		})
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		r.label("a", "db")
		synctest.Wait()
		r.delete("a")
		synctest.Wait()
		require.Zero(r, late.Load())
	})
}

func byApp(o any) ([]string, error) { return []string{o.(*corev1.Pod).Labels["app"]}, nil }

func TestOneHandlerIsCalledOnceAtATimeAndInOrder(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		var calls, together atomic.Int32
		d := &diary{hook: func(string) {
			if calls.Add(1) > 1 {
				together.Add(1)
			}
			time.Sleep(time.Millisecond)
			calls.Add(-1)
		}}
		_, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		for _, v := range []string{"1", "2", "3", "4"} {
			r.label("a", v)
		}
		settle(time.Second)
		require.Zero(r, together.Load())
		require.Equal(r, []string{"add a=1", "update a=1 to a=2", "update a=2 to a=3", "update a=3 to a=4"}, d.read())
	})
}

func TestSlowHandlerDoesNotDelayOthers(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		release := make(chan struct{})
		slow := &diary{hook: func(string) { <-release }}
		quick := &diary{}
		_, err := i.AddEventHandler(slow)
		require.NoError(r, err)
		_, err = i.AddEventHandler(quick)
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		r.put(pod("b"))
		require.Equal(r, []string{"add a=web", "add b=web"}, quick.read())
		require.Equal(r, []string{"shop/a", "shop/b"}, keys(i.GetStore()))
		close(release)
		require.Equal(r, []string{"add a=web", "add b=web"}, slow.read())
	})
}

func TestDeleteReportsTheLastState(t *testing.T) {
	onBoth(t, func(r *rig) {
		p := r.put(pod("a"))
		i := r.pods(0)
		var gone *corev1.Pod
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) { gone = o.(*corev1.Pod) }})
		require.NoError(r, err)
		r.run(i)
		r.delete("a")
		synctest.Wait()
		require.Equal(r, p.UID, gone.UID)
		require.NotEqual(r, p.ResourceVersion, gone.ResourceVersion, "that of the deletion")
	})
}

func TestMissedDeleteIsReportedAsATombstoneValue(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		d := &diary{}
		_, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		d.read()
		r.missing(func() { r.delete("a") })
		require.Equal(r, []string{"unknown end of shop/a: a=web"}, d.read())
	})
}

func TestRemovingAHandler(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		early, kept := &diary{}, &diary{}
		h, err := i.AddEventHandler(early)
		require.NoError(r, err)
		require.NoError(r, i.RemoveEventHandler(h), "before it runs")
		<-h.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
		h, err = i.AddEventHandler(kept)
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		require.Equal(r, []string{"add a=web"}, kept.read())
		require.NoError(r, cache.ShutDownEventHandler(i, h))
		require.NoError(r, i.RemoveEventHandler(h), "again")
		r.put(pod("b"))
		require.Empty(r, kept.read())
		require.Empty(r, early.read())
		require.Error(r, i.RemoveEventHandler(foreign{}), "a handle that no informer gave")
		other, err := r.pods(0).AddEventHandler(kept)
		require.NoError(r, err)
		require.NoError(r, i.RemoveEventHandler(other), "that of another informer")
	})
}

// foreign is a registration of no informer.
type foreign struct {
	cache.ResourceEventHandlerRegistration
}

func TestAHandlerMayRemoveItself(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		var h cache.ResourceEventHandlerRegistration
		d := &diary{}
		d.hook = func(string) { _ = i.RemoveEventHandler(h) }
		h, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		require.Equal(r, []string{"add a=web"}, d.read())
		r.put(pod("b"))
		require.Empty(r, d.read())
		<-h.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
	})
}

func TestShutDownWaitsForTheCallInProgress(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		release := make(chan struct{})
		h, err := i.AddEventHandler(&diary{hook: func(string) { <-release }})
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		synctest.Wait()
		var ended atomic.Bool
		go func() {
			_ = cache.ShutDownEventHandler(i, h)
			ended.Store(true)
		}()
		synctest.Wait()
		require.False(r, ended.Load())
		close(release)
		synctest.Wait()
		require.True(r, ended.Load())
	})
}

func TestAnInformerRunsOnce(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		h, err := i.AddEventHandler(&diary{})
		require.NoError(r, err)
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			i.Run(stop)
			close(ended)
		}()
		synctest.Wait()
		i.RunWithContext(r.ctx) // returns at once
		require.True(r, i.HasSynced())
		require.False(r, i.IsStopped())
		require.ErrorContains(r, i.SetTransform(nil), "informer has already started")
		require.ErrorContains(r, i.SetWatchErrorHandler(nil), "informer has already started")
		close(stop)
		<-ended
		require.True(r, i.IsStopped())
		<-h.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
		i.RunWithContext(r.ctx)
		require.True(r, i.IsStopped())
		require.True(r, i.HasSynced(), "what was read stays there to be read")
		_, err = i.AddEventHandler(&diary{})
		require.ErrorContains(r, err, "has stopped already")
		require.ErrorContains(r, i.AddIndexers(cache.Indexers{"app": byApp}), "has stopped already")
		require.NoError(r, i.RemoveEventHandler(h))
	})
}

func TestHandlerPanicIsLoggedToItsLogger(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		var mu sync.Mutex
		var logged []string
		logger := funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, prefix+" "+args)
		}, funcr.Options{LogCaller: funcr.Error}).WithName("mine")
		_, file, line, _ := runtime.Caller(0)
		_, err := i.AddEventHandlerWithOptions(&diary{hook: func(string) { panic("oh") }}, cache.HandlerOptions{Logger: &logger})
		require.NoError(r, err)
		r.run(i)
		mu.Lock()
		defer mu.Unlock()
		require.Contains(r, strings.Join(logged, "\n"), fmt.Sprintf(`mine "caller"={"file"="%s" "line"=%d} "msg"="Observed a panic"`, filepath.Base(file), line+1))
	})
}

func TestSyncedIsTrue(t *testing.T) {
	onBoth(t, func(r *rig) {
		id := r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}}})
		i := r.pods(0)
		var heard error
		require.NoError(r, i.SetWatchErrorHandler(func(*cache.Reflector, error) { r.Error("another was set") }))
		require.NoError(r, i.SetWatchErrorHandlerWithContext(func(_ context.Context, reflector *cache.Reflector, err error) {
			require.NotEmpty(r, reflector.TypeDescription())
			heard = err
		}))
		r.run(i)
		settle(time.Minute)
		require.False(r, i.HasSynced())
		require.False(r, cache.IsDone(i.HasSyncedChecker()))
		require.True(r, apierrors.IsForbidden(heard), "%v", heard)
		require.Error(r, i.SetWatchErrorHandler(func(*cache.Reflector, error) {}), "it runs")
		r.srv.Faults().Remove(id)
		settle(time.Minute)
		require.True(r, i.HasSynced())
		require.True(r, i.GetController().HasSynced())
		require.True(r, cache.WaitFor(r.ctx, "", i.HasSyncedChecker(), i.GetController().HasSyncedChecker()))
	})
}

func TestStoreResourceVersions(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		require.Empty(r, i.LastSyncResourceVersion())
		p := r.put(pod("a"))
		r.run(i)
		require.Equal(r, p.ResourceVersion, i.LastSyncResourceVersion())
		require.Equal(r, p.ResourceVersion, i.GetStore().LastStoreSyncResourceVersion())
		require.Equal(r, p.ResourceVersion, i.GetController().LastSyncResourceVersion())
		p = r.label("a", "db")
		synctest.Wait()
		require.Equal(r, p.ResourceVersion, i.LastSyncResourceVersion())
		require.Equal(r, p.ResourceVersion, i.GetStore().LastStoreSyncResourceVersion())
	})
}

func TestTransformRunsBeforeTheStoreIsUpdated(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		require.NoError(r, i.SetTransform(func(o any) (any, error) {
			p := o.(*corev1.Pod)
			if !strings.HasPrefix(p.Labels["app"], "seen-") { // client-go may deliver an object twice
				p.Labels = map[string]string{"app": "seen-" + p.Labels["app"]}
			}
			return p, nil
		}))
		d := &diary{}
		_, err := i.AddEventHandler(d)
		require.NoError(r, err)
		r.run(i)
		r.label("a", "db")
		require.Equal(r, []string{"initial a=seen-web", "update a=seen-web to a=seen-db"}, d.read())
		require.Equal(r, "a=seen-db", describe(i.GetStore().List()[0]))
		require.Error(r, i.SetTransform(nil), "it runs")
	})
}

func TestIndexersMayBeAddedAtAnyTime(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		r.label("b", "db")
		i := r.pods(0)
		require.NoError(r, i.AddIndexers(cache.Indexers{"app": byApp}))
		r.run(i)
		require.NoError(r, i.AddIndexers(cache.Indexers{"late": byApp}))
		require.Error(r, i.AddIndexers(cache.Indexers{"late": byApp}), "the name is taken")
		require.Len(r, i.GetIndexer().GetIndexers(), 3)
		for _, name := range []string{"app", "late"} {
			found, err := i.GetIndexer().ByIndex(name, "db")
			require.NoError(r, err)
			require.Len(r, found, 1)
			found, err = i.GetIndexer().Index(name, pod("x"))
			require.NoError(r, err)
			require.Equal(r, "a=web", describe(found[0]))
			names, err := i.GetIndexer().IndexKeys(name, "web")
			require.NoError(r, err)
			require.Equal(r, []string{"shop/a"}, names)
			require.ElementsMatch(r, []string{"web", "db"}, i.GetIndexer().ListIndexFuncValues(name))
		}
		_, err := i.GetIndexer().ByIndex("none", "x")
		require.EqualError(r, err, "Index with name none does not exist")
		found, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, "shop")
		require.NoError(r, err)
		require.Len(r, found, 2)
		found, err = i.GetIndexer().ByIndex(cache.NamespaceIndex, "")
		require.NoError(r, err)
		require.Empty(r, found, "those without a namespace, not all")
		require.Equal(r, []string{"shop"}, i.GetIndexer().ListIndexFuncValues(cache.NamespaceIndex))
	})
}

func TestTheKeysOfAnIndexAreInOrder(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		r.run(i)
		for _, name := range []string{"c", "a", "d", "b"} {
			r.put(pod(name))
		}
		synctest.Wait()
		names, err := i.GetIndexer().IndexKeys(cache.NamespaceIndex, "shop")
		require.NoError(r, err)
		require.Equal(r, []string{"shop/a", "shop/b", "shop/c", "shop/d"}, names)
	})
}

func TestIndexersMayBeAddedWhileTheInformerStarts(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.put(pod("a"))
		i := r.pods(0)
		r.runs.Go(func() { i.RunWithContext(r.ctx) })
		for _, name := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
			require.NoError(r, i.GetIndexer().AddIndexers(cache.Indexers{name: byApp}))
		}
		synctest.Wait()
		for name := range i.GetIndexer().GetIndexers() {
			found, err := i.GetIndexer().Index(name, pod("a"))
			require.NoError(r, err)
			require.Len(r, found, 1)
		}
	})
}

func TestTheStoreMayBeWrittenToBeforeRun(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		store := i.GetIndexer()
		require.NoError(r, store.Add(pod("a")))
		require.NoError(r, store.Update(pod("b")))
		require.Equal(r, []string{"shop/a", "shop/b"}, keys(store))
		require.NoError(r, store.Delete(pod("a")))
		found, err := store.ByIndex(cache.NamespaceIndex, "shop")
		require.NoError(r, err)
		require.Len(r, found, 1)
		require.NoError(r, store.Replace([]any{pod("c")}, "7"))
		require.Equal(r, "7", store.LastStoreSyncResourceVersion())
		store.Bookmark("9")
		require.Equal(r, "9", store.LastStoreSyncResourceVersion())
		require.Equal(r, []string{"shop/c"}, keys(store))
		require.NoError(r, store.Resync())
		r.put(pod("d"))
		r.run(i)
		require.Equal(r, []string{"shop/d"}, keys(store), "what the server has takes its place")
	})
}

func TestObjectsAddedToTheStoreStayUntilTheFirstList(t *testing.T) {
	onBoth(t, func(r *rig) {
		forbidden := r.srv.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		i := r.pods(0)
		require.NoError(r, i.GetStore().Add(pod("a")))
		r.run(i)
		require.Equal(r, []string{"shop/a"}, keys(i.GetStore()))
		r.srv.Faults().Remove(forbidden)
		settle(time.Minute)
		require.Empty(r, keys(i.GetStore()))
	})
}

func TestResyncs(t *testing.T) {
	for name, c := range map[string]struct {
		informer  time.Duration
		asked     *time.Duration
		late      bool
		in        time.Duration
		atLeast   int
		atMost    int
		alongside time.Duration // resync period of another handler, added before
	}{
		"the informer's period":                  {informer: 10 * time.Second, in: 65 * time.Second, atLeast: 6, atMost: 6},
		"none":                                   {informer: 10 * time.Second, asked: ptrTo(0), in: time.Minute},
		"an informer without resyncs":            {asked: ptrTo(5 * time.Second), in: time.Minute},
		"rounded up":                             {informer: 10 * time.Second, asked: ptrTo(15 * time.Second), in: 85 * time.Second, atLeast: 4, atMost: 4},
		"no shorter than a second":               {informer: time.Minute, asked: ptrTo(10 * time.Millisecond), in: 10500 * time.Millisecond, atLeast: 10, atMost: 10},
		"late, no shorter than the informer's":   {informer: 10 * time.Second, asked: ptrTo(2 * time.Second), late: true, in: 65 * time.Second, atLeast: 5, atMost: 6},
		"shorter ones of others make it precise": {informer: 10 * time.Second, asked: ptrTo(15 * time.Second), alongside: 5 * time.Second, in: 65 * time.Second, atLeast: 4, atMost: 4},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				r.put(pod("a"))
				i := r.pods(c.informer)
				if c.alongside > 0 {
					_, err := i.AddEventHandlerWithResyncPeriod(&diary{}, c.alongside)
					require.NoError(r, err)
				}
				if c.late {
					r.run(i)
				}
				d := &diary{}
				_, err := i.AddEventHandlerWithOptions(d, cache.HandlerOptions{ResyncPeriod: c.asked})
				require.NoError(r, err)
				if !c.late {
					r.run(i)
				}
				require.Equal(r, []string{"initial a=web"}, d.read())
				settle(c.in)
				heard := d.read()
				require.GreaterOrEqual(r, len(heard), c.atLeast)
				require.LessOrEqual(r, len(heard), c.atMost)
				for _, line := range heard {
					require.Equal(r, "update a=web to a=web", line)
				}
			})
		})
	}
}

func ptrTo(d time.Duration) *time.Duration { return &d }

func TestClientGosOwnHandlers(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		filtered, typed := &diary{}, &typedDiary{}
		_, err := i.AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: func(o any) bool { return o.(*corev1.Pod).Labels["app"] == "web" }, Handler: filtered,
		})
		require.NoError(r, err)
		_, err = cache.NewTypedSharedIndexInformer[*corev1.Pod](i).AddTypedEventHandler(typed)
		require.NoError(r, err)
		r.run(i)
		r.put(pod("a"))
		r.label("a", "db")
		r.delete("a")
		require.Equal(r, []string{"add a=web", "delete a=web"}, filtered.read())
		require.Equal(r, []string{"add a=web", "update a=web to a=db", "delete a=db"}, typed.read())
	})
}

type typedDiary struct{ diary }

func (d *typedDiary) OnAdd(p *corev1.Pod, initial bool)           { d.diary.OnAdd(p, initial) }
func (d *typedDiary) OnUpdate(old, p *corev1.Pod)                 { d.diary.OnUpdate(old, p) }
func (d *typedDiary) OnDelete(o cache.DeletedObject[*corev1.Pod]) { d.diary.OnDelete(o.OptionalObj) }

func TestAStoreMayBeReadWhileItChanges(t *testing.T) {
	onBoth(t, func(r *rig) {
		i := r.pods(0)
		r.run(i)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for range 200 {
					seen := map[string]bool{}
					for _, key := range i.GetStore().ListKeys() {
						if seen[key] {
							r.Errorf("%s twice", key)
						}
						seen[key] = true
					}
					_, _ = i.GetIndexer().ByIndex(cache.NamespaceIndex, "shop")
				}
			})
		}
		for n := range 50 {
			r.label("a", string(rune('a'+n%26)))
			r.put(pod(string(rune('b' + n%20))))
		}
		readers.Wait()
	})
}

// A lookup of several values returns an object that moves from one to the other exactly once.
func TestLookupOfSeveralValuesIsConsistent(t *testing.T) {
	onBoth(t, func(r *rig) {
		for n := range 100 {
			r.put(pod(fmt.Sprint("other-", n)))
		}
		i := r.pods(0)
		require.NoError(r, i.AddIndexers(cache.Indexers{"app": func(o any) ([]string, error) {
			return strings.Split(o.(*corev1.Pod).Labels["app"], "_"), nil
		}}))
		r.label("a", "db")
		r.run(i)
		wanted := pod("wanted")
		wanted.Labels["app"] = "web_db"
		var reader sync.WaitGroup
		var moved atomic.Bool
		reader.Go(func() {
			for !moved.Load() {
				if found, err := i.GetIndexer().Index("app", wanted); err != nil || len(found) != 101 {
					r.Errorf("found %d, %v", len(found), err)
					return
				}
			}
		})
		for range 200 {
			r.label("a", "web")
			r.label("a", "db")
		}
		moved.Store(true)
		reader.Wait()
	})
}

func TestFactoryWaitsForTheInformersItStarted(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.srv.Faults().Add(apiservertest.Fault{Resource: "nodes", Do: []apiservertest.Action{apiservertest.Fail{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "no"}}})
		f := r.side.factory(r.T, r.cfg, 0)
		f.Core().V1().Pods().Informer()
		f.StartWithContext(r.ctx)
		f.Core().V1().Nodes().Informer()
		require.NoError(r, f.WaitForCacheSyncWithContext(r.ctx).AsError(), "the other was not started")
		f.StartWithContext(r.ctx)
		ctx, cancel := context.WithTimeoutCause(r.ctx, time.Minute, errors.New("late"))
		defer cancel()
		result := f.WaitForCacheSyncWithContext(ctx)
		require.ErrorContains(r, result.AsError(), "*v1.Node")
		require.ErrorContains(r, result.AsError(), "late")
		require.Len(r, result.Synced, 2)
		r.cancel()
		f.Shutdown()
		f.StartWithContext(t.Context()) // starts nothing
	})
}
