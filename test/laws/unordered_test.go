package laws

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// teller is a source that sends the events of a test. Each watch lasts until the next cut.
type teller struct {
	items  []*corev1.Pod
	rv     int
	events chan wire.Event[object.Head]
	cuts   chan struct{}
	asked  []string // the resource versions at which watches began
}

func newTeller(rv int, items ...*corev1.Pod) *teller {
	return &teller{items: items, rv: rv}
}

func (s *teller) Describe() source.Description { return source.Description{Name: "pods"} }

func (s *teller) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: strconv.Itoa(s.rv)}, Items: func(yield func(object.Head, error) bool) {
		for _, item := range s.items {
			if !yield(item, nil) {
				return
			}
		}
	}}
}

func (s *teller) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	s.asked = append(s.asked, opts.ResourceVersion)
	return func(yield func(wire.Event[object.Head], error) bool) {
		for {
			select {
			case e := <-s.events:
				if !yield(e, nil) {
					return
				}
			case <-s.cuts:
				return
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// tell makes the source send changes such as "added a/1@5", where 1 is the UID.
func (s *teller) tell(changes ...string) {
	for _, c := range changes {
		kind, state, _ := strings.Cut(c, " ")
		s.events <- wire.Event[object.Head]{Type: watch.EventType(strings.ToUpper(kind)), Object: podAt(state)}
	}
	synctest.Wait()
}

// podAt returns the state of a pod: name/UID@RV.
func podAt(state string) *corev1.Pod {
	name, life, _ := strings.Cut(state, "/")
	uid, rv, _ := strings.Cut(life, "@")
	p := pod(name)
	p.UID, p.ResourceVersion = types.UID(uid), rv
	return p
}

// states returns the content of a cache in the same form.
func states(i *sharedinformer.Informer[*corev1.Pod]) []string {
	held := []string{}
	for _, name := range []string{"a", "b", "c"} {
		if p, ok := i.Cache().Get(object.Key{Namespace: "shop", Name: name}); ok {
			held = append(held, fmt.Sprintf("%s/%s@%s", name, p.UID, p.ResourceVersion))
		}
	}
	return held
}

// told runs body with a synced informer of a source based on s.
func told(t *testing.T, s *teller, from source.ListerWatcher, opts sharedinformer.Options, body func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		opts.Initial = reflector.List
		s.events, s.cuts = make(chan wire.Event[object.Head]), make(chan struct{}) // created in the bubble
		i := newInformer[*corev1.Pod](from, opts)
		h := record(t, i)
		i.AddHandler(h)
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		require.NoError(t, i.WaitForSync(ctx))
		body(t, i, h)
		cancel()
		require.NoError(t, <-ended)
	})
}

// The versions of some servers grow only per object, not over all objects. An event that is new for its
// object is applied. Other events never restore an older state or a deleted object.
func TestL17_VersionsThatDoNotGrowOverAllObjects(t *testing.T) {
	for name, c := range map[string]struct {
		tell      []string
		want      []string
		heard     []string
		unordered bool
	}{
		"a newer state":                   {[]string{"added c/3@200", "modified a/1@50"}, []string{"a/1@50", "b/2@20", "c/3@200"}, []string{"add c", "update a"}, true},
		"an unknown object":               {[]string{"added c/3@60"}, []string{"a/1@10", "b/2@20", "c/3@60"}, []string{"add c"}, true},
		"a deletion":                      {[]string{"deleted a/1@50"}, []string{"b/2@20"}, []string{"delete a"}, true},
		"a deletion at the last version":  {[]string{"deleted a/1@10"}, []string{"b/2@20"}, []string{"delete a"}, true},
		"the object of that name before":  {[]string{"added a/4@20", "modified a/1@30"}, []string{"a/4@20", "b/2@20"}, []string{"delete a unknown", "add a"}, true},
		"another object of the same name": {[]string{"added a/4@50"}, []string{"a/4@50", "b/2@20"}, []string{"delete a unknown", "add a"}, true},

		"the same state":                   {[]string{"added a/1@10", "modified b/2@20"}, []string{"a/1@10", "b/2@20"}, nil, false},
		"an older state":                   {[]string{"modified a/1@5", "deleted a/1@5"}, []string{"a/1@10", "b/2@20"}, nil, false},
		"a deletion of an older life":      {[]string{"deleted a/0@5", "deleted a/0@50"}, []string{"a/1@10", "b/2@20"}, nil, false},
		"a life that has ended":            {[]string{"deleted a/1@101", "added a/1@10", "modified a/1@60", "deleted a/1@101"}, []string{"b/2@20"}, []string{"delete a"}, false},
		"a life before the cached one":     {[]string{"deleted a/1@101", "added a/4@102", "modified a/1@99", "modified a/4@102"}, []string{"a/4@102", "b/2@20"}, []string{"delete a", "add a"}, false},
		"a life whose end was missed":      {[]string{"added a/4@102", "modified a/1@99"}, []string{"a/4@102", "b/2@20"}, []string{"delete a unknown", "add a"}, false},
		"a selector let go and took again": {[]string{"deleted a/1@101", "added b/2@20", "added a/1@103", "deleted a/1@101"}, []string{"a/1@103", "b/2@20"}, []string{"delete a", "add a"}, false},
	} {
		for _, compact := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compact %t", name, compact), func(t *testing.T) {
				var log strings.Builder
				opts := sharedinformer.Options{Compact: compact, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				s := newTeller(100, podAt("a/1@10"), podAt("b/2@20"))
				told(t, s, s, opts, func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder) {
					h.heard()
					s.tell(c.tell...)
					require.Equal(t, c.want, states(i))
					require.Equal(t, c.heard, h.heard())
					status := i.Status().Reflector
					require.Equal(t, c.unordered, status.Unordered)
					if !compact { // a compact queue folds some events
						require.EqualValues(t, len(c.tell), status.Events+status.Duplicates)
					}
					s.tell(c.tell...)
					if c.unordered {
						s.tell("modified b/2@21")
					}
					require.Equal(t, btoi(c.unordered), strings.Count(log.String(), "not ordered"), "once")
				})
			})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A relist sets a version for the objects that it lacks. Events of these objects up to that version are
// old.
func TestL17_AnOldEventAfterARelist(t *testing.T) {
	s := newTeller(100, podAt("a/1@10"), podAt("b/2@20"))
	told(t, s, s, sharedinformer.Options{}, func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder) {
		s.items, s.rv = s.items[1:], 300
		s.tell("bookmark /@90") // the history went back, so a list follows
		require.NoError(t, i.WaitForRV(t.Context(), "300"))
		s.tell("modified a/1@250")
		require.Equal(t, []string{"b/2@20"}, states(i))
		require.False(t, i.Status().Reflector.Unordered)
	})
}

// A server does not count as unordered because it repeats an event, however old.
func TestL17_RepeatedDeletionIsNotReported(t *testing.T) {
	const many = 1000 // more deletions than are remembered
	s := newTeller(100, podAt("a/1@10"))
	for n := range many {
		s.items = append(s.items, podAt(fmt.Sprintf("b%d/2@%d", n, 20+n%50)))
	}
	told(t, s, s, sharedinformer.Options{}, func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder) {
		s.tell("deleted a/1@105")
		for n := range many {
			s.tell(fmt.Sprintf("deleted b%d/2@%d", n, 110+n))
		}
		s.tell("deleted a/1@105", "added c/3@2000")
		require.NoError(t, i.WaitForRV(t.Context(), "2000"))
		require.Equal(t, []string{"c/3@2000"}, states(i))
		require.False(t, i.Status().Reflector.Unordered)
	})
}

// A watch resumes at the highest version, so a replayed event does not move it back. If versions have no
// order, it resumes at the last one.
func TestL19_ResumingWithoutOrder(t *testing.T) {
	s := newTeller(100, podAt("a/1@10"))
	told(t, s, s, sharedinformer.Options{}, func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder) {
		s.tell("modified a/1@105", "modified a/1@10")
		s.cuts <- struct{}{}
		s.tell("added b/2@60")
		s.cuts <- struct{}{}
		s.tell("modified a/1@110")
		s.cuts <- struct{}{}
		settle(0)
		require.Equal(t, []string{"100", "105", "60", "110"}, s.asked)
		require.Equal(t, "110", i.Cache().RV(), "the promise does not go back")
	})
}

// A server with two counters makes random changes. Its events are sometimes repeated.
func TestL17_AnyUnorderedServerConverges(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 23))
		ordered := seed%2 == 0
		s := newTeller(1)
		told(t, s, s, sharedinformer.Options{Compact: seed%3 == 0}, func(t *testing.T, i *sharedinformer.Informer[*corev1.Pod], h *recorder) {
			counters := []int{1, 1 + random.IntN(500)}
			lives := map[string]int{}
			truth := map[string]string{}
			var past []string
			for n := range 400 {
				name := []string{"a", "b", "c"}[random.IntN(3)]
				counter := &counters[0]
				if name == "c" && !ordered {
					counter = &counters[1]
				}
				*counter += 1 + random.IntN(3)
				kind := "modified"
				switch gone := truth[name] == ""; {
				case gone:
					kind = "added"
					lives[name] = n
				case random.IntN(4) == 0:
					kind = "deleted"
				}
				state := fmt.Sprintf("%s/%s%d@%d", name, name, lives[name], *counter)
				truth[name] = state
				if kind == "deleted" {
					truth[name] = ""
				}
				past = append(past, kind+" "+state)
				kept := len(past)
				if random.IntN(8) == 0 { // as if the informer had missed the last events
					kept = max(0, kept-random.IntN(30))
				}
				for _, e := range append(past[len(past)-1:], past[kept:]...) {
					s.tell(e)
				}
			}
			want := []string{}
			for _, name := range []string{"a", "b", "c"} {
				if truth[name] != "" {
					want = append(want, truth[name])
				}
			}
			require.Equal(t, want, states(i), "seed %d", seed)
			require.Equal(t, !ordered, i.Status().Reflector.Unordered, "seed %d", seed)
		})
	}
}
