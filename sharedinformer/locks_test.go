package sharedinformer

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// curious is a source that calls its informer whenever it is asked for its description.
type curious struct {
	source.ListerWatcher
	ask func()
}

func (a curious) Describe() source.Description {
	a.ask()
	return a.ListerWatcher.Describe()
}

// No lock is ever held while a source describes itself.
func TestSourceMayCallItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i *Informer[partial]
		var asked atomic.Int64
		namespaced := new(atomic.Bool)
		i = informerOf(curious{turncoat{namespaced: namespaced, turned: make(chan struct{})}, func() {
			if i == nil || asked.Add(1) > 20 { // each handler asks for the name
				return
			}
			i.Namespaces()
			i.AddHandler(HandlerFuncs[partial]{}).Close()
			i.Status()
		}}, Options{})
		stop := runFor(t, i)
		require.NoError(t, i.SetNamespaces([]string{"shop"}))
		require.NoError(t, i.WaitForSync(t.Context()), "the kind has no namespaces")
		require.NotZero(t, asked.Load())
		require.Len(t, i.core.(*core).feeds.all(), 1)
		stop()
	})
}

// An index function that blocks delays neither the end of a wait whose context is done, nor the
// loop that logs it, even while other callers wait for the cache.
func TestL22_BlockedIndexFunctionDoesNotBlockOtherWaits(t *testing.T) {
	for name, join := range map[string]func(*Informer[partial]){
		"a handler joins":   func(i *Informer[partial]) { i.AddHandler(HandlerFuncs[partial]{}) },
		"namespaces change": func(i *Informer[partial]) { _ = i.SetNamespaces([]string{"shop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			i := informerOf(newFixed(things(1)...), Options{})
			entered, release := make(chan struct{}, 100), make(chan struct{})
			AddIndex(i, "blocking", func(partial) []string { entered <- struct{}{}; <-release; return nil })
			defer runFor(t, i)()
			defer close(release)
			<-entered
			go join(i)
			for stacks := make([]byte, 1<<20); !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "[sync.Mutex.Lock"); {
				runtime.Gosched()
			}
			ended := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				i.core.(*core).nextResync(time.Now())
				ended <- i.WaitForSync(ctx)
			}()
			select {
			case err := <-ended:
				require.ErrorIs(t, err, ErrNotSynced)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			case <-time.After(10 * time.Second):
				t.Error("the wait goes on after its context has ended")
			}
		})
	}
}

// Status, the waits, and Close of a registration do not wait for index functions, whoever called these.
func TestL22_BlockedIndexFunctionDoesNotBlockStatusOrClose(t *testing.T) {
	for name, begin := range map[string]func(*Informer[partial], func(partial) []string){
		"by the informer": func(i *Informer[partial], values func(partial) []string) {
			o := thing("new", 9, 9)
			AddIndex(i, "blocking", func(p partial) []string {
				if p.Name == "new" {
					return values(p)
				}
				return nil
			})
			i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Added, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
		},
		"by AddIndex": func(i *Informer[partial], values func(partial) []string) { go AddIndex(i, "blocking", values) },
	} {
		t.Run(name, func(t *testing.T) {
			i := informerOf(newFixed(things(1)...), Options{})
			defer runFor(t, i)()
			one, two := i.AddHandler(HandlerFuncs[partial]{}), i.AddHandler(HandlerFuncs[partial]{})
			require.NoError(t, i.WaitForSync(t.Context()))
			synced := i.Status()
			entered, release := make(chan struct{}, 100), make(chan struct{})
			begin(i, func(partial) []string { entered <- struct{}{}; <-release; return nil })
			defer close(release)
			<-entered
			done := make(chan struct{})
			go func() {
				defer close(done)
				s := i.Status()
				assert.Equal(t, synced.RV, s.RV)
				assert.Equal(t, synced.Objects, s.Objects)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				assert.NoError(t, i.WaitForRV(t.Context(), synced.RV))
				assert.NoError(t, i.WaitForRV(t.Context(), synced.RV, "shop"))
				assert.ErrorIs(t, i.WaitForRV(ctx, "1000"), context.DeadlineExceeded)
				assert.ErrorIs(t, i.WaitForRV(ctx, "1000", "shop"), context.DeadlineExceeded)
				one.Close()
				assert.NoError(t, two.CloseAndWait(t.Context()))
				assert.Empty(t, i.Status().Handlers)
			}()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Error("somebody waits for the index function")
			}
		})
	}
}

// Nor is a lock held when the informer begins to run.
func TestSourceMayCallItsInformerDuringTheStart(t *testing.T) {
	var i *Informer[partial]
	i = informerOf(curious{newFixed(things(1)...), func() {
		if i != nil {
			i.Namespaces()
		}
	}}, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	go func() { _ = i.Run(ctx) }()
	for ctx.Err() == nil && !i.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	require.True(t, i.HasSynced(), "Run waits for ever: the source was asked under a lock")
}
