package sharedinformer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// joiner checks that its events have neither a gap nor a repeat: each update must start from the
// object delivered before.
type joiner struct {
	t    *testing.T
	told map[string]partial
	last chan struct{} // closed when the last object is delivered
}

func (j *joiner) Handle(_ context.Context, e Event[partial]) error {
	name := e.Object.Name
	switch before := j.told[name]; {
	case e.Type == Add && before != nil:
		j.t.Errorf("add of %s, which was told before", name)
	case e.Type == Update && before != e.Old:
		j.t.Errorf("update of %s does not start from what was told", name)
	}
	j.told[name] = e.Object
	if name == "last" {
		close(j.last)
	}
	return nil
}

// Handlers join from many goroutines while changes arrive as fast as the pipeline takes them, with
// real parallelism.
func TestL06_JoiningUnderFire(t *testing.T) {
	for _, lag := range []Lag{Unbounded, Coalesce} {
		i := New[partial](quiet{}, Options{Initial: reflector.List})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- i.Run(ctx) }()
		require.NoError(t, i.WaitForSync(ctx))

		const objects, changes = 50, 5_000
		stop := make(chan struct{})
		var joining sync.WaitGroup
		var mu sync.Mutex
		var joined []*joiner
		for range 4 {
			joining.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					j := &joiner{t: t, told: map[string]partial{}, last: make(chan struct{})}
					r := i.AddHandlerWith(j, HandlerOptions{Lag: lag})
					if err := r.WaitForSync(ctx); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if stay := len(joined) < 20; stay {
						joined = append(joined, j)
					} else {
						r.Close()
					}
					mu.Unlock()
				}
			})
		}
		enough := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(joined) == 20
		}
		for n := 0; n < changes || !enough(); n++ {
			o := thing(fmt.Sprint(n%objects), n%objects, n+2)
			i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
			if n%3 == 0 { // many small batches rather than a few large ones
				require.NoError(t, i.WaitForRV(ctx, o.ResourceVersion))
			}
		}
		close(stop)
		joining.Wait()
		last := thing("last", objects, 1<<30)
		i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Added, Key: object.KeyOf(last), Object: last, RV: last.ResourceVersion})
		require.NoError(t, i.WaitForRV(ctx, last.ResourceVersion))
		for _, j := range joined {
			<-j.last
		}
		cancel()
		require.NoError(t, <-ended)
		require.NotEmpty(t, joined)
		for _, j := range joined {
			require.Len(t, j.told, objects+1)
			for name, o := range j.told {
				now, _ := i.Cache().Get(object.Key{Name: name})
				require.Same(t, now, o)
			}
		}
	}
}

func TestHandlerMayBeAddedOnBehalfOfAnotherCaller(t *testing.T) {
	i := New[partial](quiet{}, Options{})
	require.Regexp(t, `^handler sharedinformer/join_test.go:\d+$`, i.AddHandler(&joiner{}).String())
	theirs := i.AddHandlerWith(&joiner{}, HandlerOptions{Place: "their/file.go:7"})
	require.Equal(t, "handler their/file.go:7", theirs.String())
	require.Equal(t, "their/file.go:7", theirs.Status().Name)
	require.Equal(t, "their/file.go:7", theirs.Status().Place)
}

func TestNilIsRefusedAtTheCall(t *testing.T) {
	i := New[partial](quiet{}, Options{})
	for name, call := range map[string]func(){
		"handler":          func() { i.AddHandler(nil) },
		"handler with":     func() { i.AddHandlerWith(nil, HandlerOptions{}) },
		"function":         func() { i.AddHandler(HandlerFunc[partial](nil)) },
		"index":            func() { AddIndex[partial, string](i, "n", nil) },
		"source":           func() { New[partial](nil, Options{}) },
		"filter's match":   func() { Filter(nil, Handler[partial](&joiner{})) },
		"filter's handler": func() { Filter(func(partial) bool { return true }, nil) },
		"filter's function": func() {
			Filter(func(partial) bool { return true }, Handler[partial](HandlerFunc[partial](nil)))
		},
		"what to transform": func() { reflector.Transformed(nil, func(p partial) (partial, error) { return p, nil }) },
		"how to transform":  func() { reflector.Transformed[partial](quiet{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { require.Regexp(t, `^sharedinformer/join_test.go:\d+: `, recover()) }()
			call()
		})
	}
}

// An index function that ends its goroutine ends the run with an error, and no lock stays held.
func TestGoexitInAnIndexFunctionEndsTheRun(t *testing.T) {
	i := New[partial](quiet{}, Options{Initial: reflector.List})
	AddIndex(i, "n", func(p partial) []string {
		if p.Name == "bad" {
			runtime.Goexit()
		}
		return nil
	})
	ended := make(chan error)
	go func() { ended <- i.Run(t.Context()) }()
	require.NoError(t, i.WaitForSync(t.Context()))
	o := thing("bad", 1, 5)
	i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Added, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
	err := <-ended
	require.ErrorContains(t, err, "an index function called runtime.Goexit")
	i.AddHandler(HandlerFuncs[partial]{}).Close()
	require.ErrorIs(t, i.Run(t.Context()), err, "what the cache has is not known")
}
