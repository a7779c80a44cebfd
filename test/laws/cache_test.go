package laws

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// generations is a source whose watches have always expired. Each of its lists returns another
// generation of the same ten pods, and one pod that no other list has.
type generations struct{ lists atomic.Int64 }

const generationSize = 11

func (g *generations) Describe() source.Description { return source.Description{Name: "pods"} }

func (g *generations) List(context.Context, source.Request) source.List[object.Head] {
	n := strconv.FormatInt(g.lists.Add(1), 10)
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: n}, Items: func(yield func(object.Head, error) bool) {
		for k := range generationSize {
			p := pod(fmt.Sprintf("p%d", k), "gen="+n)
			if k == generationSize-1 {
				p = pod("only-"+n, "gen="+n)
			}
			p.UID, p.ResourceVersion = types.UID(p.Name), n
			if !yield(p, nil) {
				return
			}
		}
	}}
}

func (g *generations) Watch(context.Context, source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return nil, apierrors.NewResourceExpired("too old")
}

// This runs in real time, with true concurrency between the readers and the writer.
func TestL12_AReaderSeesOneGenerationWhole(t *testing.T) {
	opts := listing()
	opts.Timing.Backoff = reflector.Backoff{Initial: 1, Max: 1}
	i := sharedinformer.New[*corev1.Pod](&generations{}, opts)
	generation := func(p *corev1.Pod) []string { return []string{p.Labels["gen"]} }
	byGeneration := sharedinformer.AddIndex(i, "generation", generation)
	whole := func(how string, read iter.Seq[*corev1.Pod]) {
		seen := map[string]int{}
		for p := range read {
			seen[p.Labels["gen"]]++
		}
		for _, count := range seen {
			if len(seen) != 1 || count != generationSize {
				t.Errorf("%s: got %v, want %d of one generation", how, seen, generationSize)
			}
		}
	}
	everything := labels.NewSelector()
	reads := []func(){
		func() { whole("All", i.Cache().All()) },
		func() { whole("Namespace", i.Cache().Namespace("shop")) },
		func() { whole("Select", i.Cache().Select(everything)) },
		func() {
			seq, rv := i.Cache().Snapshot()
			whole("Snapshot", seq)
			objects := slices.Collect(seq)
			if len(objects) > 0 && objects[0].ResourceVersion != rv {
				t.Errorf("Snapshot: got generation %s with resource version %s", objects[0].ResourceVersion, rv)
			}
		},
		func() {
			if n := len(byGeneration.Values()); n > 1 {
				t.Errorf("Values: got %d generations, want 1", n)
			}
			whole("Index", byGeneration.Get(i.Cache().RV()))
		},
		func() {
			if n := i.Cache().Len(); n != 0 && n != generationSize {
				t.Errorf("Len: got %d, want %d", n, generationSize)
			}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers, informer sync.WaitGroup
	for _, read := range reads {
		readers.Go(func() {
			for ctx.Err() == nil {
				read()
			}
		})
	}
	informer.Go(func() { _ = i.Run(ctx) })
	require.NoError(t, i.WaitForRV(ctx, "500"))
	cancel()
	readers.Wait()
	informer.Wait()
}

// history records the content of the server at each resource version.
type history struct {
	mu sync.Mutex
	at map[string]map[string]string
}

func (h *history) note(r *rig) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at[r.srv.RV()] = r.truth()
}

// The resource version of a snapshot is exact: the snapshot contains every change up to that version and
// no later one. The same holds after a wait for a version.
func TestL13_ASnapshotIsTheServersStateAtItsVersion(t *testing.T) {
	for name, opts := range map[string]sharedinformer.Options{"list": listing(), "stream": streaming(), "pages": paged()} {
		for _, compact := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s compact %v", name, compact), func(t *testing.T) {
				const seed = 13
				inBubble(t, apiservertest.Options{Seed: seed, BookmarkPeriod: time.Second}, func(r *rig) {
					past := &history{at: map[string]map[string]string{}}
					r.fill(5)
					past.note(r)
					r.srv.Faults().Add(apiservertest.Fault{Verb: "watch", Every: 2, Do: []apiservertest.Action{apiservertest.Cut{AfterBytes: 4000}}})
					r.srv.Faults().Add(apiservertest.Fault{Verb: "list", Every: 4, Do: []apiservertest.Action{apiservertest.Cut{AfterBytes: 1000}}})
					opts.Compact = compact
					opts.Timing.Backoff = reflector.Backoff{Initial: 100 * time.Millisecond, Max: time.Second}
					i := r.informer(opts)
					stop := r.run(i)
					random := rand.New(rand.NewPCG(seed, 0))
					snapshots, versions := 0, map[string]bool{}
					for range 700 {
						outage := random.IntN(40) == 0
						if outage {
							r.srv.Down()
						}
						for range random.IntN(3) {
							change(r, random)
							past.note(r)
						}
						if outage {
							r.srv.Compact()
							r.srv.Up()
						}
						time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
						seq, rv := i.Cache().Snapshot()
						objects := slices.Collect(seq)
						if rv == "" {
							require.Empty(r, objects)
							continue
						}
						held := map[string]string{}
						for _, p := range objects {
							held[object.FormatKey(object.KeyOf(p))] = version(p)
						}
						require.Equal(r, past.at[rv], held, "at %s, seed %d", rv, seed)
						snapshots++
						versions[rv] = true
					}
					require.Greater(r, snapshots, 500)
					require.Greater(r, len(versions), 100)
					require.Greater(r, i.Status().Reflector.Relists, uint64(3), "compaction has made relists necessary")
					stop()
				})
			})
		}
	}
}

// change makes a random change to one of eight pods.
func change(r *rig, random *rand.Rand) {
	r.Helper()
	name := "p" + string(rune('a'+random.IntN(8)))
	if random.IntN(4) == 0 {
		err := r.srv.Delete(pods, object.Key{Namespace: "shop", Name: name})
		require.True(r, err == nil || apierrors.IsNotFound(err), "%v", err)
		return
	}
	r.put(pod(name, "n="+strconv.Itoa(random.Int())))
}

func TestL14_AWriteIsReadAfterWaitingForItsVersion(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, stop := r.synced(streaming())
		defer stop()
		client := rest.ResourceFor[*corev1.Pod](r.client)
		for n := range 20 {
			written, err := client.Create(r.ctx, pod(fmt.Sprintf("p%d", n)), metav1.CreateOptions{})
			require.NoError(r, err)
			began := time.Now()
			require.NoError(r, i.WaitForRV(r.ctx, written.ResourceVersion))
			require.Zero(r, time.Since(began), "no polling")
			read, ok := i.Cache().Get(object.KeyOf(written))
			require.True(r, ok)
			require.Equal(r, written.ResourceVersion, read.ResourceVersion)
		}
	})
}

// The version of another resource's object, or of one that a selector hides, arrives only in a bookmark.
func TestL14_ABookmarkCounts(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i, stop := r.synced(streaming())
		defer stop()
		other, err := r.srv.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}})
		require.NoError(r, err)
		began := time.Now()
		require.NoError(r, i.WaitForRV(r.ctx, other.GetResourceVersion()))
		r.within(time.Second, time.Minute, time.Since(began))
		require.NoError(r, i.WaitForRV(r.ctx, "1"), "long reached")
	})
}

func TestL14_AWaitForAVersionEnds(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		i := r.informer(listing())
		const future = "1000000"
		for _, bad := range []string{"", "0", "-1", "abc", "1.5"} {
			require.Error(r, i.WaitForRV(r.ctx, bad), "%q", bad)
		}
		mine := errors.New("mine")
		ctx, cancel := context.WithCancelCause(r.ctx)
		time.AfterFunc(time.Minute, func() { cancel(mine) })
		began := time.Now()
		require.ErrorIs(r, i.WaitForRV(ctx, future), mine, "before Run")
		require.Equal(r, time.Minute, time.Since(began))

		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		ended := make(chan error)
		go func() { ended <- i.WaitForRV(r.ctx, future) }()
		short, cancelShort := context.WithTimeout(r.ctx, 10*time.Second)
		defer cancelShort()
		require.ErrorIs(r, i.WaitForRV(short, future), context.DeadlineExceeded)
		synctest.Wait()
		began = time.Now()
		stop()
		err := <-ended
		require.Zero(r, time.Since(began))
		require.ErrorIs(r, err, sharedinformer.ErrStopped)
		require.ErrorContains(r, err, "pods")
		require.ErrorContains(r, err, future)
		require.ErrorIs(r, i.WaitForRV(r.ctx, future), sharedinformer.ErrStopped)
		require.NoError(r, i.WaitForRV(r.ctx, i.Cache().RV()), "what is reached stays reached")
	})
}

// The error says what keeps the version from being reached.
func TestL14_AWaitThatFailsSaysWhatFailedLast(t *testing.T) {
	inBubble(t, apiservertest.Options{Authorize: apiservertest.Deny("", "pods")}, func(r *rig) {
		i := r.informer(listing())
		defer r.run(i)()
		ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
		defer cancel()
		err := i.WaitForRV(ctx, "100")
		require.ErrorIs(r, err, context.DeadlineExceeded)
		require.ErrorContains(r, err, "pods: list: forbidden: ")
	})
}

// No value reachable from the public API of an informer has a method that writes, nor can it be
// converted to a type that has one.
func TestL16_AnInformerGivesNoWayToWrite(t *testing.T) {
	type pod = *corev1.Pod
	writers := []reflect.Type{reflect.TypeFor[*indexer.Indexer](), reflect.TypeFor[indexer.Writer]()}
	seen := map[reflect.Type]bool{}
	var walk func(path string, t reflect.Type)
	check := func(path string, t reflect.Type) {
		if strings.Contains(t.PkgPath(), "millrace") || t.Kind() == reflect.Pointer {
			walk(path, t)
		}
	}
	walk = func(path string, out reflect.Type) {
		if seen[out] {
			return
		}
		seen[out] = true
		for _, writer := range writers {
			if out.ConvertibleTo(writer) {
				t.Errorf("%s: a %v can be converted to a %v", path, out, writer)
			}
		}
		for method := range out.Methods() {
			for result := range method.Type.Outs() {
				check(path+"."+method.Name, result)
			}
		}
		if out.Kind() == reflect.Pointer {
			out = out.Elem()
		}
		if out.Kind() == reflect.Struct {
			for field := range out.Fields() {
				if field.IsExported() {
					check(path+"."+field.Name, field.Type)
				}
			}
		}
	}
	walk("Informer", reflect.TypeFor[*sharedinformer.Informer[pod]]())
	walk("Index", reflect.TypeFor[*indexer.Index[pod, string]]())
	walk("Registration", reflect.TypeFor[*sharedinformer.Registration]())
	require.True(t, seen[reflect.TypeFor[indexer.Reader[pod]]()])
}

func TestL16_AMutationIsReportedWithTypeKeyAndPath(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		path   string
	}{
		"field of the spec": {func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, ".Spec.NodeName"},
		"label":             {func(p *corev1.Pod) { p.Labels["a"] = "changed" }, ".ObjectMeta.Labels[a]"},
		"new label":         {func(p *corev1.Pod) { p.Labels["new"] = "x" }, ".ObjectMeta.Labels[new]"},
		"element of a list": {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "i2" }, ".Spec.Containers[0].Image"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				victim := pod("b", "a=1")
				victim.Spec.Containers = []corev1.Container{{Name: "c", Image: "i1"}}
				r.put(pod("a"))
				r.put(victim)
				reported := &failures{}
				opts := streaming()
				opts.OnError, opts.DetectMutations = reported.handle, time.Second
				i := r.informer(opts)
				var once atomic.Bool
				culprit := i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(_ context.Context, p *corev1.Pod, _ bool) error {
					if p.Name == "b" && once.CompareAndSwap(false, true) {
						tc.change(p)
					}
					return nil
				}})
				defer r.run(i)()
				require.NoError(r, i.WaitForSync(r.ctx))
				// This tells the race detector that the change comes before the check.
				r.put(pod("a", "touched=1"))
				settle(10 * time.Second)
				all := reported.heard()
				require.Len(r, all, 1, "once")
				require.Equal(r, failure.PhaseCache, all[0].Phase)
				require.Equal(r, object.Key{Namespace: "shop", Name: "b"}, all[0].Key)
				mutation, ok := errors.AsType[*sharedinformer.MutationError](&all[0])
				require.True(r, ok)
				require.Equal(r, tc.path, mutation.Path)
				require.Equal(r, "*v1.Pod", mutation.Type)
				require.ErrorContains(r, &all[0], "pods: cache: "+culprit.String()+": shop/b: *v1.Pod in the cache was changed at "+tc.path)
				require.Equal(r, culprit.String(), all[0].Handler)
				require.Equal(r, all[0].Err, i.Status().Failure.Err)
			})
		})
	}
}

// If an object was changed and leaves the cache before the next check, it is checked when it leaves.
func TestL16_AMutationIsFoundWhenTheObjectLeaves(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(2)
		reported := &failures{}
		opts := streaming()
		opts.OnError, opts.DetectMutations = reported.handle, time.Hour
		i, stop := r.synced(opts)
		for p := range i.Cache().All() {
			p.Spec.NodeName = "mine"
		}
		r.put(pod("pa", "new=1"))
		r.delete("pb")
		synctest.Wait()
		require.Len(r, reported.heard(), 2)
		for p := range i.Cache().All() {
			p.Spec.NodeName = "mine again"
		}
		stop()
		require.Len(r, reported.heard(), 1, "and when the informer stops")
	})
}
