package reflector

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/wire"
)

// lasting is a script whose watches, but for the last, stay open for a time after
// their events.
type lasting struct {
	*script
	lifetime time.Duration
}

func (l lasting) Watch(ctx context.Context, o metav1.ListOptions) (iter.Seq2[wire.Event[partial], error], error) {
	seq, err := l.script.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[partial], error) bool) {
		seq(yield)
		select {
		case <-time.After(l.lifetime):
		case <-ctx.Done():
		}
	}, nil
}

// The server's data was restored from a backup: it waits in silence until its history
// reaches the version that the watch asks for, which may take days.
func TestAServerThatWentBackIsListed(t *testing.T) {
	for name, c := range map[string]struct {
		watches []answer
		asked   []string
	}{
		"a mute watch": {
			watches: []answer{{events: []wire.Event[partial]{change(watch.Added, "a", 90), endOfInitial(100)}}, {}},
			asked:   []string{`watch rv="" initial`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="" initial`},
		},
		"a bookmark": {
			watches: []answer{{events: []wire.Event[partial]{change(watch.Added, "a", 90), endOfInitial(100)}}, {events: []wire.Event[partial]{change(watch.Bookmark, "", 60)}}},
			asked:   []string{`watch rv="" initial`, `watch rv="100"`, `watch rv="" initial`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					lists:   []answer{{rv: "60", items: []partial{obj("a", 50)}}},
					watches: append(c.watches, answer{events: []wire.Event[partial]{change(watch.Added, "a", 50), endOfInitial(60)}, block: true}),
				}
				r := New(lasting{s, 5 * time.Minute}, deltafifo.New[partial](deltafifo.Options{}), Options{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(12 * time.Minute)
				synctest.Wait()
				require.Equal(t, c.asked, s.asked)
				require.Equal(t, "60", r.Status().RV)
				require.ErrorIs(t, r.Status().Failure, ErrWentBack)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// Servers that send no bookmarks are asked for one item, and left alone.
func TestAMuteWatchOfAServerThatIsUpToDateGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			lists:   []answer{{rv: "100", items: []partial{obj("a", 90), obj("b", 91)}}, {err: context.DeadlineExceeded}},
			watches: []answer{{events: []wire.Event[partial]{endOfInitial(100)}}, {}, {}, {block: true}},
		}
		r := New(lasting{s, 5 * time.Minute}, deltafifo.New[partial](deltafifo.Options{}), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(19 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{`watch rv="" initial`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="100"`, `list rv="" limit=1`, `watch rv="100"`}, s.asked)
		require.Zero(t, r.Status().Failures)
		cancel()
		require.NoError(t, <-ended)
	})
}
