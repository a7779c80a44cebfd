package indexer

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

type meta = *metav1.PartialObjectMetadata

func obj(namespace, name string, rv int, apps ...string) meta {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: strconv.Itoa(rv),
		Labels: map[string]string{"apps": strings.Join(apps, "_")},
	}}
	return o
}

func apps(o meta) []string {
	joined := o.GetLabels()["apps"]
	if joined == "" {
		return nil
	}
	return strings.Split(joined, "_")
}

func names[T object.Head](seq iter.Seq[T]) []string {
	var all []string
	for o := range seq {
		all = append(all, object.FormatKey(object.KeyOf(o))+"@"+o.GetResourceVersion())
	}
	slices.Sort(all)
	return all
}

func set[T object.Head](x *Indexer, objects ...T) {
	x.Write(func(w Writer) {
		for _, o := range objects {
			w.Set(object.KeyOf(o), o)
		}
	})
}

func TestLookups(t *testing.T) {
	x := New()
	set(x, obj("shop", "a", 1, "web"), obj("shop", "b", 2, "web", "db"), obj("", "node", 3))
	byApp, _ := AddIndex(x, "app", apps)
	r := ReaderOf[meta](x)

	o, ok := r.Get(object.Key{Namespace: "shop", Name: "a"})
	require.True(t, ok)
	require.Equal(t, "1", o.ResourceVersion)
	_, ok = r.Get(object.Key{Namespace: "shop", Name: "absent"})
	require.False(t, ok)
	require.Equal(t, []string{"shop/a@1", "shop/b@2"}, names(r.Namespace("shop")))
	require.Equal(t, []string{"node@3", "shop/a@1", "shop/b@2"}, names(r.Namespace(metav1.NamespaceAll)))
	require.Empty(t, names(r.Namespace("absent")))
	require.Equal(t, []string{"shop/a@1", "shop/b@2"}, names(byApp.Get("web")))
	require.Equal(t, []string{"shop/b@2"}, names(byApp.Get("db")))
	require.Equal(t, 2, byApp.Len("web"))
	require.ElementsMatch(t, []string{"web", "db"}, byApp.Values())
	selector, err := labels.Parse("apps=web")
	require.NoError(t, err)
	require.Equal(t, []string{"shop/a@1"}, names(r.Select(selector)))
	require.Equal(t, []string{"shop/a@1"}, names(Matching(byApp.Get("web"), selector)))

	x.Write(func(w Writer) { w.Delete(object.Key{Namespace: "shop", Name: "b"}) })
	require.Empty(t, byApp.Len("db"))
	require.Equal(t, []string{"web"}, byApp.Values())
}

// Peek finds nothing while a write is in progress, and does not wait.
func TestPeekDoesNotWait(t *testing.T) {
	x := New()
	a := obj("shop", "a", 1)
	set(x, a)
	key := object.KeyOf(a)
	x.Write(func(Writer) {
		_, ok := x.Peek(key)
		require.False(t, ok)
	})
	got, ok := x.Peek(key)
	require.True(t, ok)
	require.Same(t, a, got)
	_, ok = x.Peek(object.Key{Name: "a"})
	require.False(t, ok)
}

func TestIterationSeesTheStateAtItsStart(t *testing.T) {
	x := New()
	set(x, obj("n", "a", 1), obj("n", "b", 1))
	seen := 0
	for range ReaderOf[meta](x).All() {
		set(x, obj("n", "c", 2), obj("n", "d", 2)) // must not deadlock either
		seen++
	}
	require.Equal(t, 2, seen)
	require.Equal(t, 4, ReaderOf[meta](x).Len())
}

// A lookup of several values finds the objects that have any of them at one moment, each object
// once.
func TestLookupOfSeveralValuesSeesOneState(t *testing.T) {
	x := New()
	set(x, obj("n", "a", 1, "web"), obj("n", "b", 1, "db"), obj("n", "both", 1, "web", "db"), obj("n", "none", 1))
	byApp, _ := AddIndex(x, "app", apps)
	var seen []string
	for o := range byApp.HeadsOfAny([]string{"web", "db", "absent"}) {
		set(x, obj("n", "a", 2), obj("n", "b", 2, "web")) // b moves to a value that was already read
		seen = append(seen, o.GetName()+"@"+o.GetResourceVersion())
	}
	require.ElementsMatch(t, []string{"a@1", "b@1", "both@1"}, seen)
	require.Empty(t, slices.Collect(byApp.HeadsOfAny(nil)))
	for range byApp.HeadsOfAny([]string{"web", "db"}) {
		break
	}
}

func TestReplaceReturnsTheDifference(t *testing.T) {
	x := New()
	gone, kept, changed := obj("n", "gone", 1), obj("n", "kept", 2), obj("n", "changed", 3)
	set(x, gone, kept, changed)
	var log []string
	x.Write(func(w Writer) {
		w.Replace("", []object.Head{obj("n", "new", 6), obj("n", "kept", 2), obj("n", "changed", 5)}, func(c Change) {
			log = append(log, fmt.Sprintf("%s %v→%v", c.Key.Name, c.Existed, c.Exists))
		})
		w.SetRV("9")
	})
	require.Equal(t, []string{"gone true→false", "new false→true", "changed true→true"}, log)
	now, _ := ReaderOf[meta](x).Get(object.Key{Namespace: "n", Name: "kept"})
	require.Same(t, kept, now, "an unchanged object keeps its pointer")
	require.Equal(t, "9", ReaderOf[meta](x).RV())
	require.Equal(t, []string{"n/changed@5", "n/kept@2", "n/new@6"}, names(ReaderOf[meta](x).All()))
}

// After a restore, two objects may have the same version.
func TestL04_SameVersionWithAnotherUIDIsAnotherObject(t *testing.T) {
	x := New()
	was, is := obj("n", "a", 1), obj("n", "a", 1)
	is.UID = "another"
	set(x, was)
	x.Write(func(w Writer) {
		old, existed, changed := w.Set(object.KeyOf(is), is)
		require.Same(t, was, old)
		require.True(t, existed && changed)
	})
	now, _ := ReaderOf[meta](x).Get(object.KeyOf(is))
	require.Same(t, is, now)
}

// Replacing or trimming one namespace does not affect the others.
func TestReplaceAndTrimOfNamespaces(t *testing.T) {
	x := New()
	set(x, obj("m", "a", 1), obj("n", "b", 2), obj("n", "c", 3), obj("n", "d", 4), obj("o", "e", 5))
	var log []string
	tell := func(c Change) { log = append(log, fmt.Sprintf("%s %v→%v", c.Key.Name, c.Existed, c.Exists)) }
	x.Write(func(w Writer) { w.Replace("n", []object.Head{obj("n", "c", 3), obj("n", "f", 6)}, tell) })
	require.ElementsMatch(t, []string{"b true→false", "d true→false", "f false→true"}, log)
	require.Equal(t, "f false→true", log[2], "deletions first")
	require.Equal(t, []string{"m/a@1", "n/c@3", "n/f@6", "o/e@5"}, names(ReaderOf[meta](x).All()))

	log = nil
	x.Write(func(w Writer) { w.Replace("none", nil, tell) })
	require.Empty(t, log)
	x.Write(func(w Writer) { w.Trim(func(namespace string) bool { return namespace == "m" }, tell) })
	require.ElementsMatch(t, []string{"c true→false", "f true→false", "e true→false"}, log)
	require.Equal(t, []string{"m/a@1"}, names(ReaderOf[meta](x).All()))
	require.Empty(t, names(ReaderOf[meta](x).Namespace("n")))
}

// A repeated run must produce the same events.
func TestTrimIsLimitedToANamespace(t *testing.T) {
	x := New()
	var told []string
	for _, namespace := range strings.Split("fbdhacge", "") {
		set(x, obj(namespace, "x", 1))
	}
	x.Write(func(w Writer) {
		w.Trim(func(namespace string) bool { return namespace == "d" }, func(c Change) { told = append(told, c.Key.Namespace) })
	})
	require.Equal(t, []string{"a", "b", "c", "e", "f", "g", "h"}, told)
}

func TestL13_ANamespaceMayBeAheadOfTheRest(t *testing.T) {
	x := New()
	x.Write(func(w Writer) {
		w.SetRV("5")
		w.SetNamespaceRV("n", "7")
	})
	require.Equal(t, "5", ReaderOf[meta](x).RV())
	require.Equal(t, "7", ReaderOf[meta](x).NamespaceRV("n"))
	require.Equal(t, "5", ReaderOf[meta](x).NamespaceRV("m"))
	x.Write(func(w Writer) { w.SetNamespaceRV("n", "") })
	require.Equal(t, "5", ReaderOf[meta](x).NamespaceRV("n"))
}

// The cost of a batch does not depend on the number of namespaces with their own version.
func TestL13_VersionsOfManyNamespaces(t *testing.T) {
	cost := func(namespaces int) float64 {
		x := New()
		x.Write(func(w Writer) {
			for n := range namespaces {
				w.SetNamespaceRV(strconv.Itoa(n), "1")
			}
		})
		rv := 1
		return testing.AllocsPerRun(100, func() {
			rv++
			x.Write(func(w Writer) { w.SetNamespaceRV("7", strconv.Itoa(rv)) })
			require.Equal(t, strconv.Itoa(rv), ReaderOf[meta](x).NamespaceRV("7"))
		})
	}
	require.Equal(t, cost(10), cost(4000))
}

// Views of all ages are held while the content changes; each must stay as it was.
func TestL12_AViewNeverChanges(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		x := New()
		index, _ := AddIndex(x, "app", apps)
		type taken struct {
			view View
			want []string
		}
		var views []taken
		hold := func(v View) {
			require.Equal(t, v.Len(), len(slices.Collect(v.All())))
			views = append(views, taken{v, names(v.All())})
		}
		for step := range 600 {
			o := obj("n"+strconv.Itoa(r.IntN(2)), strconv.Itoa(r.IntN(200)), step+1, "web")
			if r.IntN(3) == 0 {
				x.Write(func(w Writer) { w.Delete(object.KeyOf(o)) })
			} else {
				set(x, o)
			}
			if r.IntN(10) == 0 {
				view, _ := x.Snapshot()
				hold(view)
				hold(index.of.view("web"))
				hold(ReaderOf[meta](x).of.namespace("n1"))
			}
		}
		for n, v := range views {
			require.Equal(t, v.want, names(v.view.All()), "seed %d view %d", seed, n)
			for i := range v.view.Len() {
				require.NotNil(t, v.view.At(i))
			}
		}
	}
}

// A caller that violates L16 gets wrong answers, but must not break the cache.
func TestChangingACachedNameDoesNoHarm(t *testing.T) {
	x := New()
	index, _ := AddIndex(x, "app", apps)
	set(x, obj("n", "a", 1, "web"), obj("n", "b", 1, "web"), obj("n", "c", 1, "web"))
	c, _ := ReaderOf[meta](x).Get(object.Key{Namespace: "n", Name: "c"})
	c.Name, c.Namespace = "changed", "changed"
	x.Write(func(w Writer) { w.Delete(object.Key{Namespace: "n", Name: "a"}) })
	x.Write(func(w Writer) { w.Delete(object.Key{Namespace: "n", Name: "c"}) })
	require.Equal(t, []string{"n/b@1"}, names(ReaderOf[meta](x).All()))
	require.Equal(t, []string{"n/b@1"}, names(ReaderOf[meta](x).Namespace("n")))
	require.Equal(t, []string{"n/b@1"}, names(index.Get("web")))
}

func TestL12_ReadersSeeAReplaceWholeOrNotAtAll(t *testing.T) {
	const size = 200
	x := New()
	r := ReaderOf[meta](x)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				seq, rv := r.Snapshot()
				objects := slices.Collect(seq)
				for _, o := range objects {
					if o.ResourceVersion != rv {
						t.Errorf("object of %s in the set of %s", o.ResourceVersion, rv)
						return
					}
				}
				if len(objects) != 0 && len(objects) != size {
					t.Errorf("%d objects at once", len(objects))
					return
				}
			}
		})
	}
	for rv := 1; rv < 200; rv++ {
		items := make([]object.Head, size)
		for i := range items {
			items[i] = obj("n", strconv.Itoa(i+rv), rv)
		}
		x.Write(func(w Writer) {
			w.Replace("", items, func(Change) {})
			w.SetRV(strconv.Itoa(rv))
		})
	}
	close(stop)
	readers.Wait()
}

// Reading a list that a write has not touched does not wait for the write.
func TestAnUntouchedListIsReadDuringAWrite(t *testing.T) {
	x := New()
	byApp, _ := AddIndex(x, "app", apps)
	r := ReaderOf[meta](x)
	set(x, obj("n", "a", 1, "web"), obj("m", "b", 1, "db"))
	lookUp := func() {
		t.Helper()
		require.Equal(t, []string{"n/a@1"}, names(r.Namespace("n")))
		require.Equal(t, []string{"n/a@1"}, names(byApp.Get("web")))
	}
	lookUp()
	x.Write(func(w Writer) {
		w.Set(object.Key{Namespace: "m", Name: "b"}, obj("m", "b", 2, "db"))
		lookUp() // would never return if it took the lock
	})
}

// A batch changes lists of namespaces and of an index, creates some and drops others. A reader that
// has seen any of it must not see anything older in any list.
func TestL12_ReadersNeverGoBack(t *testing.T) {
	const lists = 5
	x := New()
	byApp, _ := AddIndex(x, "app", apps)
	r := ReaderOf[meta](x)
	write := func(rv int) {
		items := []object.Head{obj("even-odd", "sometimes", rv, "any")}
		for n := range lists {
			items = append(items, obj(strconv.Itoa(n), "always", rv, strconv.Itoa(n), "any"))
		}
		if rv%2 == 0 {
			items = items[1:]
		}
		x.Write(func(w Writer) { w.Replace("", items, func(Change) {}) })
	}
	write(1)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for reader := range 4 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(reader), 4))
			for seen := 0; ; {
				select {
				case <-stop:
					return
				default:
				}
				var seq iter.Seq[meta]
				which := rng.IntN(4)
				switch which {
				case 0:
					seq = r.Namespace(strconv.Itoa(rng.IntN(lists)))
				case 1:
					seq = byApp.Get(strconv.Itoa(rng.IntN(lists)))
				case 2:
					seq = r.All()
				case 3:
					seq = r.Namespace("even-odd")
				}
				got := 0
				for o := range seq {
					got, _ = strconv.Atoi(o.ResourceVersion)
				}
				switch {
				case got == 0 && which != 3:
					t.Error("a list that always has an object is empty")
				case got == 0 && seen%2 == 1:
					got = seen + 1 // it is empty after every second write
				case got != 0 && got < seen:
					t.Errorf("saw %d after %d", got, seen)
				}
				seen = max(seen, got)
			}
		})
	}
	for rv := 2; rv < 2000; rv++ {
		write(rv)
	}
	close(stop)
	readers.Wait()
}

// Random actions against a naive model: after each, every lookup by index must equal a scan of the
// model with the index function.
func TestL15_LookupEqualsScan(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		x := New()
		model := map[object.Key]meta{}
		var indexes []*Index[meta, string]
		add := func() {
			index, failures := AddIndex(x, "apps", apps)
			require.Empty(t, failures)
			indexes = append(indexes, index)
		}
		add()
		for step := range 150 {
			o := obj("n"+strconv.Itoa(r.IntN(3)), strconv.Itoa(r.IntN(12)), step+1)
			for range r.IntN(3) {
				o.Labels["apps"] += "_" + strconv.Itoa(r.IntN(4))
			}
			o.Labels["apps"] = strings.TrimPrefix(o.Labels["apps"], "_")
			key := object.KeyOf(o)
			switch n := r.IntN(20); {
			case n < 12:
				set(x, o)
				model[key] = o
			case n < 17:
				x.Write(func(w Writer) { w.Delete(key) })
				delete(model, key)
			case n == 17:
				add()
			default:
				items := slices.Collect(maps.Values(model))
				items = append(items[:len(items)/2], o)
				heads := make([]object.Head, len(items))
				for n, item := range items {
					heads[n] = item
				}
				x.Write(func(w Writer) { w.Replace("", heads, func(Change) {}) })
				clear(model)
				for _, item := range items {
					model[object.KeyOf(item)] = item
				}
			}
			require.Equal(t, len(model), ReaderOf[meta](x).Len(), "seed %d step %d", seed, step)
			for _, index := range indexes {
				for v := range 4 {
					value := strconv.Itoa(v)
					scan := names(func(yield func(meta) bool) {
						for _, o := range model {
							if slices.Contains(apps(o), value) && !yield(o) {
								return
							}
						}
					})
					require.Equal(t, scan, names(index.Get(value)), "seed %d step %d value %s", seed, step, value)
				}
			}
		}
	}
}

func TestL15_PanickingIndexFunctionLosesNoObject(t *testing.T) {
	var failures []*IndexError
	x := New()
	touchy := func(o meta) []string {
		if o.Name == "bad" && o.ResourceVersion == "1" {
			panic("cannot cope")
		}
		return []string{"all"}
	}
	index, _ := AddIndex(x, "touchy", touchy)
	bad := obj("n", "bad", 1)
	failures = append(failures, x.Write(func(w Writer) { w.Set(object.KeyOf(bad), bad) })...)
	set(x, obj("n", "good", 1))
	_, again := AddIndex(x, "also touchy", touchy)
	require.Len(t, again, 1)
	require.Len(t, failures, 1)
	require.Contains(t, failures[0].Error(), `index "touchy": function panicked on n/bad: cannot cope`)
	require.NotEmpty(t, failures[0].Stack)
	_, ok := ReaderOf[meta](x).Get(object.Key{Namespace: "n", Name: "bad"})
	require.True(t, ok)
	require.Equal(t, []string{"n/bad@1", "n/good@1"}, names(ReaderOf[meta](x).Namespace("n")))
	require.Equal(t, []string{"n/good@1"}, names(index.Get("all")))

	set(x, obj("n", "bad", 2))
	require.Equal(t, []string{"n/bad@2", "n/good@1"}, names(index.Get("all")))
	x.Write(func(w Writer) { w.Delete(object.Key{Namespace: "n", Name: "bad"}) })
	require.Equal(t, []string{"n/good@1"}, names(index.Get("all")))
}

// A value of a comparable type may be incomparable.
func TestL15_ValueThatCannotBeAKeyLosesNoObject(t *testing.T) {
	x := New()
	set(x, obj("n", "a", 1))
	index, failures := AddIndex(x, "loose", func(meta) []any { return []any{1, []string{"no key"}} })
	require.Len(t, failures, 1)
	require.ErrorContains(t, failures[0], "unhashable")
	require.Zero(t, index.Len(1))
	set(x, obj("n", "a", 2))
	require.Equal(t, []string{"n/a@2"}, names(ReaderOf[meta](x).All()))
}

// If the index function panics during an update, after yielding some values, the object is under
// none of them.
func TestL15_APanicAmidTheValuesOfAnUpdateLeavesNone(t *testing.T) {
	x := New()
	index, _ := AddIndex(x, "split", func(o meta) []any {
		if o.ResourceVersion == "2" {
			return []any{"a", "a", []string{"no key"}}
		}
		return []any{"a", "b", "a"}
	})
	set(x, obj("n", "a", 1))
	set(x, obj("n", "b", 1))
	require.Equal(t, []string{"n/a@1", "n/b@1"}, names(index.Get("a")))
	set(x, obj("n", "a", 2))
	require.Equal(t, []string{"n/b@1"}, names(index.Get("a")))
	require.Equal(t, []string{"n/b@1"}, names(index.Get("b")))
	set(x, obj("n", "a", 3))
	require.Equal(t, []string{"n/a@3", "n/b@1"}, names(index.Get("b")))
}

func benchmarkCache(n int) *Indexer {
	x := New()
	for i := range n {
		set(x, obj("n"+strconv.Itoa(i%50), strconv.Itoa(i), 1, strconv.Itoa(i%200)))
	}
	AddIndex(x, "app", apps)
	return x
}

func BenchmarkUpdate(b *testing.B) {
	x := benchmarkCache(10_000)
	versions := []object.Head{obj("n1", "1", 2, "1"), obj("n1", "1", 3, "1")}
	for n := 0; b.Loop(); n++ {
		set(x, versions[n%2])
	}
}

// The time per value must not grow with the number of values of an object.
func BenchmarkUpdateOfManyValues(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			x := New()
			values := make([]int, count)
			for n := range values {
				values[n] = n
			}
			AddIndex(x, "many", func(meta) []int { return values })
			versions := []object.Head{obj("n", "a", 1), obj("n", "a", 2)}
			for n := 0; b.Loop(); n++ {
				set(x, versions[n%2])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/value")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	r := ReaderOf[meta](benchmarkCache(10_000))
	key := object.Key{Namespace: "n1", Name: "1"}
	for b.Loop() {
		r.Get(key)
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	x := benchmarkCache(100)
	r := ReaderOf[meta](x)
	byApp, _ := AddIndex(x, "app", apps)
	selector := labels.SelectorFromSet(labels.Set{"apps": "7"})
	for name, lookup := range map[string]func() (n int){
		"get": func() (n int) {
			if _, ok := r.Get(object.Key{Namespace: "n1", Name: "1"}); ok {
				n++
			}
			return n
		},
		"namespace": func() (n int) {
			for range r.Namespace("n1") {
				n++
			}
			return n
		},
		"label": func() (n int) {
			for range r.Select(selector) {
				n++
			}
			return n
		},
		"index": func() (n int) {
			for range byApp.Get("7") {
				n++
			}
			return n
		},
	} {
		require.Positive(t, lookup(), name)
		require.Zero(t, testing.AllocsPerRun(100, func() { lookup() }), name)
	}
}

// BenchmarkReadAfterEachWrite is the worst case for views made on demand: nothing is ever read
// twice.
func BenchmarkReadAfterEachWrite(b *testing.B) {
	for _, objects := range []int{1000, 10_000, 100_000} {
		b.Run(strconv.Itoa(objects), func(b *testing.B) {
			x := benchmarkCache(objects)
			versions := []object.Head{obj("n1", "1", 2, "1"), obj("n1", "1", 3, "1")}
			for n := 0; b.Loop(); n++ {
				set(x, versions[n%2])
				x.Snapshot()
			}
		})
	}
}

// A removed index finds nothing, is not called again, and does not affect another index of the same
// name.
func TestARemovedIndexFindsNothing(t *testing.T) {
	x := New()
	calls := 0
	all := func(*metav1.PartialObjectMetadata) []string { calls++; return []string{"all"} }
	gone, _ := AddIndex(x, "n", all)
	stays, _ := AddIndex(x, "n", func(*metav1.PartialObjectMetadata) []string { return []string{"all"} })
	set := func(name string) {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
		x.Write(func(w Writer) { w.Set(object.KeyOf(o), o) })
	}
	set("a")
	before := gone.Get("all")
	gone.Remove()
	gone.Remove()
	calls = 0
	set("b")
	require.Zero(t, calls)
	require.Zero(t, gone.Len("all"))
	require.Empty(t, gone.Values())
	require.Empty(t, slices.Collect(before), "an iteration that begins later")
	require.Equal(t, 2, stays.Len("all"))
}

// A value that does not equal itself would create a bucket that is never found and never emptied.
func TestL15_AValueThatDoesNotEqualItself(t *testing.T) {
	x := New()
	i, _ := AddIndex(x, "f", func(meta) []float64 { return []float64{math.NaN()} })
	for n := range 3 {
		failures := x.Write(func(w Writer) { w.Set(object.Key{Name: "a"}, obj("", "a", n+1)) })
		require.Len(t, failures, 1)
		require.ErrorContains(t, failures[0], "does not equal itself")
	}
	require.Empty(t, i.Values())
	require.Equal(t, 1, ReaderOf[meta](x).Len())
}
