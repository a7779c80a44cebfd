package sharedinformer

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// fedIn is a fed that supports namespaces: all of its objects are in namespace a. It reuses known
// objects, as package rest does.
type fedIn struct{ *fed }

func (fedIn) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true, Reuses: true}
}

func (s fedIn) List(ctx context.Context, opts source.Request) source.List[object.Head] {
	list := s.fed.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if have, ok := known(opts.Known, object.KeyOf(item)); ok && have.GetUID() == item.GetUID() && have.GetResourceVersion() == item.GetResourceVersion() {
				item = have
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// known returns the known object of a key, if the request has one.
func known(by wire.Cached, key object.Key) (object.Head, bool) {
	if by == nil {
		return nil, false
	}
	return by(key)
}

// A server was restored from a backup, so the same UID and version mean other content. The informer gets
// other namespaces before it has noticed. The cache holds the lost history, and is not used for known
// objects. Equal objects stay the same, and an object listed twice is delivered once.
func TestL17_HistoryWentBackWithSeveralNamespaces(t *testing.T) {
	both(t, func(t *testing.T, of Store) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			color, rv := "red", "20"
			from := fedIn{&fed{events: make(chan wire.Event[object.Head]), list: func() ([]podPtr, string) {
				mu.Lock()
				defer mu.Unlock()
				return []podPtr{podAt("x", "15", map[string]string{"color": color}), podAt("y", "14", nil), podAt("x", "15", map[string]string{"color": color})}, rv
			}}}
			var heard []string
			i := New[podPtr](from, Options{Store: of, Initial: reflector.List})
			i.AddHandler(HandlerFunc[podPtr](func(_ context.Context, e Event[podPtr]) error {
				heard = append(heard, e.Type.String()+" "+e.Object.GetName()+" "+e.Object.Labels["color"])
				return nil
			}))
			ctx, stop := context.WithCancel(t.Context())
			wait, err := i.Start(ctx)
			require.NoError(t, err)
			synctest.Wait()
			mu.Lock()
			color, rv = "blue", "16" // version 14 came back, and x was changed again
			mu.Unlock()
			require.NoError(t, i.SetNamespaces([]string{"a"}))
			time.Sleep(time.Hour)
			synctest.Wait()
			o, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "x"})
			require.True(t, ok)
			require.Equal(t, "blue", o.Labels["color"])
			stop()
			require.NoError(t, wait())
			require.Equal(t, []string{"add x red", "add y ", "update x blue"}, heard)
		})
	})
}

// A namespace was removed from the informer before its server was restored. Its file belongs to the lost
// history. The file is removed: it is not used when the namespace is added again, although the server
// has passed its version by then, nor by a later process. A file left by an earlier process is not used
// either.
func TestC02_TheFileOfALostHistory(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile []string
		anew      bool
	}{
		"of one that went": {[]string{"b"}, false}, "of one among all": {nil, false}, "of a process before": {[]string{"b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, of Store) { loseHistory(t, of, c.meanwhile, c.anew) })
		})
	}
}

func loseHistory(t *testing.T, of Store, meanwhile []string, anew bool) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		color := func(c string) func(partial) { return func(o partial) { o.Labels = map[string]string{"color": c} } }
		w := newWorld()
		fill := func(to int) {
			for w.rv < to {
				w.put("b", "y", func(partial) {})
			}
		}
		w.put("a", "x", color("red")) // at 11
		fill(20)
		begin := func(namespaces []string) (i *Informer[partial], stop func()) {
			i = informerOf(traced{part{w}}, Options{Store: of, Namespaces: namespaces, Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Minute})})
			stop = runFor(t, i)
			require.NoError(t, i.WaitForSync(t.Context()))
			return i, stop
		}
		i, stop := begin([]string{"a"})
		time.Sleep(5 * time.Minute)
		if anew {
			stop()
			i, stop = begin(meanwhile)
		} else {
			require.NoError(t, i.SetNamespaces(meanwhile))
			require.NoError(t, i.WaitForSync(t.Context()))
		}
		defer func() { stop() }()

		w.mu.Lock() // version 10 comes back, and x is created again, with its UID and version
		w.rv, w.history = 10, make([]wire.Event[object.Head], len(w.history))
		for n := range w.history {
			w.history[n].Object = in("", "gone", 1)
		}
		clear(w.objects)
		w.mu.Unlock()
		w.put("a", "x", color("blue"))
		fill(13)
		synctest.Wait()
		i.Reconnect(reflector.ErrDeaf)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.ErrorIs(t, i.Status().Reflector.Failure, reflector.ErrWentBack)
		if !anew {
			files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
			require.NoError(t, err)
			require.Len(t, files, 1, "that of now")
		}

		fill(30)
		require.NoError(t, i.SetNamespaces([]string{"a"}))
		time.Sleep(time.Second)
		w.put("a", "z", func(partial) {}) // shows that nothing is missing
		require.NoError(t, i.WaitForSync(t.Context()))
		o, ok := i.Cache().Get(object.Key{Namespace: "a", Name: "x"})
		require.True(t, ok)
		require.Equal(t, "blue", o.Labels["color"])
	})
}

// The objects of a list may also be those of a snapshot, which Stale returns at the same time.
func TestAListFromANewHistoryIsNotModified(t *testing.T) {
	i := informerOf(part{newWorld()}, Options{}).core.(*core)
	cached, listed := in("n", "x", 5), in("n", "x", 5)
	for _, o := range []partial{cached, listed} {
		items := []object.Head{o}
		i.handleDeltas([]deltafifo.Delta{{Type: deltafifo.Replaced, Items: items, RV: "10", NewHistory: true}})
		require.Same(t, o, items[0])
	}
	have, _ := i.cache.Reader().Get(object.Key{Namespace: "n", Name: "x"})
	require.Same(t, cached, have)
}
