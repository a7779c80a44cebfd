package sharedinformer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// asking is a source that asks its informer about itself whenever it is asked for
// another form of itself.
type asking struct {
	source.ListerWatcher[partial]
	ask func()
}

func (a asking) In(namespace string) (source.ListerWatcher[partial], error) {
	a.ask()
	from, err := a.ListerWatcher.(source.Namespacer[partial]).In(namespace)
	return asking{from, a.ask}, err
}

func (a asking) Reusing(wire.Known[partial]) source.ListerWatcher[partial] {
	a.ask()
	return a
}

// No lock is held while a source is asked for its parts, whatever the occasion.
func TestASourceMayAskItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i *Informer[partial]
		asked := 0
		namespaced := new(atomic.Bool)
		i = informerOf(asking{turncoat{namespaced: namespaced, turned: make(chan struct{})}, func() {
			if i == nil {
				return
			}
			asked++
			i.Namespaces()
			i.AddHandler(HandlerFuncs[partial]{}).Close()
			i.Status()
		}}, Options{})
		stop := runFor(t, i)
		require.NoError(t, i.SetNamespaces([]string{"shop"}))
		require.NoError(t, i.WaitForSync(t.Context()), "the kind has no namespaces")
		require.NotZero(t, asked)
		require.Len(t, i.whole.feeds.all(), 1)
		before := asked
		i.whole.namespaced()
		require.Greater(t, asked, before)
		stop()
	})
}

// blank is a source that has nothing that takes objects back.
type blank struct{ *fixed }

func (blank) Reusing(wire.Known[partial]) source.ListerWatcher[partial] { return nil }

func TestASourceThatReusesNothingIsReadAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := informerOf(blank{newFixed(things(1)...)}, Options{})
		defer runFor(t, i)()
		require.NoError(t, i.WaitForSync(t.Context()))
		require.Equal(t, 1, i.Cache().Len())
	})
}
