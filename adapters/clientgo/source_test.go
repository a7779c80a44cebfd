package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// handmade is a cache.ListerWatcher without contexts, as in many tests.
type handmade struct {
	mu    sync.Mutex
	list  runtime.Object
	pages []runtime.Object     // instead of list, in order
	asked []metav1.ListOptions // of lists
	from  []string             // start versions of watches
	feed  *watch.FakeWatcher
}

func (h *handmade) List(opts metav1.ListOptions) (runtime.Object, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, opts)
	if n := len(h.asked); n <= len(h.pages) {
		return h.pages[n-1], nil
	}
	if h.list == nil {
		return nil, errors.New("no list")
	}
	return h.list, nil
}

func (h *handmade) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return nil, errors.New("no streaming list")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = append(h.from, opts.ResourceVersion)
	return h.feed, nil
}

// again ends the watch and waits for the next one.
func (h *handmade) again() {
	h.mu.Lock()
	before := h.feed
	h.feed = watch.NewFake()
	h.mu.Unlock()
	before.Stop()
	settle(time.Minute)
}

// inBubble runs an informer of h in a bubble.
func inBubble(t *testing.T, h *handmade, example runtime.Object, body func(i cache.SharedIndexInformer, d *diary)) {
	bubbleOf(t, h, h, example, body)
}

// bubbleOf is inBubble for a source that wraps h.
func bubbleOf(t *testing.T, h *handmade, lw cache.ListerWatcher, example runtime.Object, body func(i cache.SharedIndexInformer, d *diary)) {
	synctest.Test(t, func(t *testing.T) {
		h.feed = watch.NewFake()
		i, d := clientgo.NewInformer(lw, example, 0, nil), &diary{}
		_, err := i.AddEventHandler(d)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		defer runs.Wait()
		defer cancel()
		runs.Go(func() { i.RunWithContext(ctx) })
		settle(time.Minute)
		body(i, d)
	})
}

func versioned(name, version string) *corev1.Pod {
	p := pod(name)
	p.ResourceVersion, p.UID = version, "1"
	return p
}

func podList(version string, pods ...*corev1.Pod) *corev1.PodList {
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, p := range pods {
		l.Items = append(l.Items, *p)
	}
	return l
}

func TestASourceWithoutContexts(t *testing.T) {
	h := &handmade{list: podList("7", versioned("a", "5"))}
	inBubble(t, h, nil, func(i cache.SharedIndexInformer, d *diary) {
		require.Equal(t, []string{"initial a=web"}, d.read())
		h.feed.Add(versioned("b", "8"))
		h.feed.Modify(versioned("b", "8")) // again
		h.feed.Delete(versioned("a", "9"))
		require.Equal(t, []string{"add b=web", "delete a=web"}, d.read())
		require.Equal(t, "9", i.LastSyncResourceVersion())
		h.feed.Action(watch.Bookmark, versioned("", "12"))
		synctest.Wait()
		require.Equal(t, "12", i.LastSyncResourceVersion())
		require.Equal(t, "12", i.GetStore().LastStoreSyncResourceVersion())
	})
}

func TestASourceWhoseObjectsHaveNoVersions(t *testing.T) {
	h := &handmade{list: podList("", pod("a"))}
	inBubble(t, h, &corev1.Pod{}, func(i cache.SharedIndexInformer, d *diary) {
		require.Equal(t, []string{"initial a=web"}, d.read())
		changed := pod("a")
		changed.Labels["app"] = "db"
		h.feed.Modify(changed)
		h.feed.Modify(pod("a"))
		h.feed.Add(pod("b"))
		h.feed.Delete(pod("a"))
		require.Equal(t, []string{"update a=web to a=db", "update a=db to a=web", "add b=web", "delete a=web"}, d.read())
		got, ok, err := i.GetStore().GetByKey("shop/b")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, pod("b"), got)
	})
}

// The list of a fake has a version, and the objects of its watch have none.
func TestASourceInPages(t *testing.T) {
	first, second := podList("7", versioned("a", "5")), podList("8", versioned("b", "6"))
	first.Continue = "more"
	h := &handmade{pages: []runtime.Object{first, second}}
	inBubble(t, h, &corev1.Pod{}, func(i cache.SharedIndexInformer, d *diary) {
		require.Equal(t, []string{"initial a=web", "initial b=web"}, d.read())
		require.Equal(t, "7", i.LastSyncResourceVersion(), "that of the first page")
		require.Len(t, h.asked, 2)
		require.Equal(t, "more", h.asked[1].Continue)
		require.Empty(t, h.asked[1].ResourceVersion)
	})
}

// A list whose pages lead nowhere fails and says so.
func TestListEndsIfItsPagesLeadNowhere(t *testing.T) {
	for name, next := range map[string]struct {
		page func(asked int) *corev1.PodList
		want string
	}{
		"to itself": {func(int) *corev1.PodList {
			l := podList("7", versioned("a", "5"))
			l.Continue = "x"
			return l
		}, "page 2 leads to itself"},
		"in a circle": {func(asked int) *corev1.PodList {
			l := podList("7", versioned("a", "5"))
			l.Continue = fmt.Sprint(asked % 3)
			return l
		}, "leads back to an earlier one"},
		"to pages of nothing": {func(asked int) *corev1.PodList {
			l := podList("7")
			l.Continue = fmt.Sprint(asked)
			return l
		}, "1000 consecutive pages were empty"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, h := 0, &handmade{}
			lw := &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					if asked++; asked > 100_000 {
						return nil, errors.New("enough")
					}
					return next.page(asked), nil
				},
				WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) { return h.Watch(opts) },
			}
			bubbleOf(t, h, lw, &corev1.Pod{}, func(i cache.SharedIndexInformer, _ *diary) {
				s, _ := clientgo.Status(i)
				require.ErrorContains(t, s.Reflector.Failure, next.want)
			})
		})
	}
}

// A source whose versions are not numbers is called with the last version that it returned.
func TestVersionsThatAreNotNumbers(t *testing.T) {
	h := &handmade{list: podList("x7", versioned("a", "x5"))}
	inBubble(t, h, &corev1.Pod{}, func(_ cache.SharedIndexInformer, d *diary) {
		h.feed.Add(versioned("b", "x8"))
		h.feed.Action(watch.Bookmark, versioned("", "x9"))
		synctest.Wait()
		h.again()
		h.feed.Delete(versioned("b", "x10"))
		require.Equal(t, []string{"initial a=web", "add b=web", "delete b=web"}, d.read())
		require.Equal(t, []string{"x7", "x9"}, h.from)
	})
}

// fakeClient is a source that identifies itself as a fake.
type fakeClient struct{ *handmade }

// IsWatchListSemanticsUnSupported identifies client-go's fakes.
func (fakeClient) IsWatchListSemanticsUnSupported() bool { return true }

func TestVersionsOfFakeObjectsAreIgnored(t *testing.T) {
	h := &handmade{list: podList("7", versioned("a", "50"))}
	bubbleOf(t, h, fakeClient{h}, &corev1.Pod{}, func(_ cache.SharedIndexInformer, d *diary) {
		h.feed.Modify(versioned("a", "3"))
		synctest.Wait()
		h.again()
		h.feed.Delete(versioned("a", "3"))
		require.Equal(t, []string{"initial a=web", "update a=web to a=web", "delete a=web"}, d.read())
		require.Equal(t, []string{"7", "7"}, h.from)
	})
}

// For an object that was given a version, the report names the object that users see.
func TestAChangeOfAFakesObjectIsReported(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	h := &handmade{list: podList("7", versioned("a", "50"))}
	bubbleOf(t, h, fakeClient{h}, &corev1.Pod{}, func(i cache.SharedIndexInformer, _ *diary) {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { o.(*corev1.Pod).Labels["app"] = "mine" }})
		require.NoError(t, err)
		settle(2 * time.Second)
		s, _ := clientgo.Status(i)
		require.ErrorContains(t, s.Failure, "shop/a: *v1.Pod in the cache was changed at .ObjectMeta.Labels[app]")
	})
}

func TestVersionsThatAreZero(t *testing.T) {
	h := &handmade{list: podList("0", versioned("a", "0"))}
	inBubble(t, h, &corev1.Pod{}, func(_ cache.SharedIndexInformer, d *diary) {
		changed := versioned("a", "0")
		changed.Labels["app"] = "db"
		h.feed.Modify(changed)
		require.Equal(t, []string{"initial a=web", "update a=web to a=db"}, d.read())
	})
}

// watches returns a source that lists nothing and returns these watches in order.
func watches(all ...watch.Interface) cache.ListerWatcher {
	next := make(chan watch.Interface, len(all))
	for _, w := range all {
		next <- w
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return podList("7"), nil },
		WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			if opts.SendInitialEvents == nil && len(next) > 0 {
				return <-next, nil
			}
			return nil, errors.New("no watch")
		},
	}
}

// A leaked goroutine fails the bubble. The goroutines of watch.Filter block until their results are
// received.
func TestAWatchIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := watch.NewRaceFreeFake()
		feed.Action(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Message: "no", Code: 500})
		feed.Add(versioned("a", "8"))
		feed.Add(versioned("b", "9"))
		filtered := watch.Filter(feed, func(e watch.Event) (watch.Event, bool) { return e, true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		clientgo.NewInformer(watches(filtered), &corev1.Pod{}, 0, nil).RunWithContext(ctx)
	})
}

func TestWatchThatDoesNotEndBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := watch.MockWatcher{StopFunc: func() {}, ResultChanFunc: func() <-chan watch.Event { return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			clientgo.NewInformer(watches(deaf), &corev1.Pod{}, 0, nil).RunWithContext(ctx)
			close(ended)
		}()
		settle(time.Minute)
		cancel()
		settle(2 * time.Second)
		select {
		case <-ended:
		default:
			t.Error("it still runs")
		}
	})
}

// A source without numeric versions is called with its own last version.
func TestWatchContinuesWithoutVersions(t *testing.T) {
	h := &handmade{list: podList("7", pod("a"))}
	inBubble(t, h, &corev1.Pod{}, func(_ cache.SharedIndexInformer, d *diary) {
		h.feed.Add(pod("b"))
		synctest.Wait()
		h.again()
		h.feed.Delete(pod("b"))
		require.Equal(t, []string{"initial a=web", "add b=web", "delete b=web"}, d.read())
		require.Equal(t, []string{"7", "7"}, h.from)
	})
}

func TestVersionsThatEnd(t *testing.T) {
	h := &handmade{list: podList("7", versioned("a", "5"))}
	inBubble(t, h, &corev1.Pod{}, func(_ cache.SharedIndexInformer, d *diary) {
		d.read()
		changed := versioned("a", "")
		changed.Labels["app"] = "db"
		h.feed.Modify(changed)
		h.feed.Delete(versioned("a", ""))
		require.Equal(t, []string{"update a=web to a=db", "delete a=web"}, d.read())
	})
}

func TestAnObjectOfAnotherType(t *testing.T) {
	h := &handmade{list: podList("7")}
	inBubble(t, h, &corev1.Pod{}, func(i cache.SharedIndexInformer, _ *diary) {
		h.feed.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "8"}})
		synctest.Wait()
		s, _ := clientgo.Status(i)
		require.ErrorContains(t, s.Reflector.Failure, "*v1.Pod: decode: n: ")
		require.ErrorContains(t, s.Reflector.Failure, "is a *v1.Node, want a *v1.Pod")
		require.Equal(t, "7", i.LastSyncResourceVersion(), "it was not applied (L21)")
	})
}

func TestAnObjectOfAnotherKind(t *testing.T) {
	object := func(kind, version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind})
		u.SetName("x")
		u.SetResourceVersion(version)
		return u
	}
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion("7")
	h := &handmade{list: list}
	inBubble(t, h, object("Gadget", ""), func(i cache.SharedIndexInformer, _ *diary) {
		h.feed.Add(object("Widget", "8"))
		synctest.Wait()
		s, _ := clientgo.Status(i)
		require.ErrorContains(t, s.Reflector.Failure, "Kind=Widget, want example.com/v1, Kind=Gadget")
	})
}

func TestListThatIsNotAList(t *testing.T) {
	h := &handmade{list: pod("a")}
	inBubble(t, h, nil, func(i cache.SharedIndexInformer, _ *diary) {
		s, _ := clientgo.Status(i)
		require.ErrorContains(t, s.Reflector.Failure, "list")
		require.False(t, i.HasSynced())
	})
}

func TestAPanicOfAHandlerReachesClientGosHandlers(t *testing.T) {
	h := &handmade{list: podList("7", versioned("a", "5"))}
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	inBubble(t, h, nil, func(i cache.SharedIndexInformer, d *diary) {
		d.read()
		panicking := &diary{hook: func(string) { panic("oh") }}
		_, err := i.AddEventHandler(panicking)
		require.NoError(t, err)
		synctest.Wait()
		s, _ := clientgo.Status(i)
		require.EqualValues(t, 1, s.Handlers[1].Panics)
		h.feed.Add(versioned("b", "8"))
		require.Equal(t, []string{"add b=web"}, d.read(), "the informer lives on")
	})
}

func TestPanicOfTheWatchErrorHandlerIsReported(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	defer func(before []func(context.Context, any)) { utilruntime.PanicHandlers = before }(utilruntime.PanicHandlers)
	for _, crash := range []bool{false, true} {
		utilruntime.ReallyCrash = crash
		var heard atomic.Int32
		utilruntime.PanicHandlers = []func(context.Context, any){func(context.Context, any) { heard.Add(1) }}
		synctest.Test(t, func(t *testing.T) {
			h := &handmade{feed: watch.NewFake()}
			i := clientgo.NewInformer(h, &corev1.Pod{}, 0, nil)
			require.NoError(t, i.SetWatchErrorHandler(func(*cache.Reflector, error) { panic("oh") }))
			ctx, cancel := context.WithCancel(t.Context())
			var runs sync.WaitGroup
			defer runs.Wait()
			defer cancel()
			runs.Go(func() { i.RunWithContext(ctx) })
			settle(time.Minute)
			require.NotZero(t, heard.Load())
			h.mu.Lock()
			h.list = podList("7")
			h.mu.Unlock()
			settle(time.Minute)
			require.True(t, i.HasSynced(), "the informer lives on")
		})
	}
}

// If utilruntime.ReallyCrash is set, which is the default, a panic of a handler ends the process.
// The test uses a child process.
func TestAPanicOfAHandlerEndsTheProcess(t *testing.T) {
	if os.Getenv("PANIC_CHILD") != "" {
		i := clientgo.NewInformer(&handmade{list: podList("7", versioned("a", "5")), feed: watch.NewFake()}, nil, 0, nil)
		_, err := i.AddEventHandler(&diary{hook: func(string) { panic("oh") }})
		require.NoError(t, err)
		i.RunWithContext(t.Context())
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "PANIC_CHILD=1")
	out, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "handler panicked: oh")
	require.Contains(t, string(out), "source_test.go:", "where it panicked")
}

// client-go's own source for tests. Only the type of the example matters, so it may be nil.
func TestTheFakeControllerSource(t *testing.T) {
	for name, example := range map[string]runtime.Object{"object": &corev1.Pod{}, "typed nil": (*corev1.Pod)(nil), "nil": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := fcache.NewFakeControllerSource()
				defer source.Shutdown()
				source.Add(pod("a"))
				i, d := clientgo.NewInformer(source, example, 0, nil), &diary{}
				_, err := i.AddEventHandler(d)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var runs sync.WaitGroup
				defer runs.Wait()
				defer cancel()
				runs.Go(func() { i.RunWithContext(ctx) })
				settle(time.Minute)
				source.Modify(pod("a"))
				source.Delete(pod("a"))
				require.Equal(t, []string{"initial a=web", "update a=web to a=web", "delete a=web"}, d.read())
			})
		})
	}
}
