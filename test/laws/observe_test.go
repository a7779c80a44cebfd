package laws

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// failures is an error handler that records the failures.
type failures struct {
	mu      sync.Mutex
	all     []failure.Failure
	verdict func(*failure.Failure) failure.Verdict // nil: Retry
}

func (f *failures) handle(_ context.Context, got *failure.Failure) failure.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, *got)
	if f.verdict == nil {
		return failure.Retry
	}
	return f.verdict(got)
}

// heard returns the failures reported since the last call.
func (f *failures) heard() []failure.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all
	f.all = nil
	return all
}

// asked is a request to a spied source.
type asked struct {
	verb string
	opts metav1.ListOptions
	at   time.Time
}

// spy is a source that records its requests.
type spy[T object.Object] struct {
	source.ListerWatcher
	mu  sync.Mutex
	log []asked
}

func (s *spy[T]) note(verb string, opts metav1.ListOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, asked{verb, opts, time.Now()})
}

func (s *spy[T]) List(ctx context.Context, opts source.Request) source.List[object.Head] {
	s.note("list", opts.ListOptions)
	return s.ListerWatcher.List(ctx, opts)
}

func (s *spy[T]) Watch(ctx context.Context, opts source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	s.note("watch", opts.ListOptions)
	return s.ListerWatcher.Watch(ctx, opts)
}

// heard returns the requests since the last call.
func (s *spy[T]) heard() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

// verbs returns the names of requests: "list", "stream" for a streaming list, "watch", and "probe" for a
// list of one item that is used to compare resource versions.
func verbs(log []asked) []string {
	var names []string
	for _, a := range log {
		if a.opts.SendInitialEvents != nil {
			a.verb = "stream"
		}
		if a.verb == "list" && a.opts.Limit == 1 {
			a.verb = "probe"
		}
		names = append(names, a.verb)
	}
	return names
}

// listing returns options for reading the initial state from a list.
func listing() sharedinformer.Options {
	return sharedinformer.Options{Initial: reflector.List}
}

// streaming returns options for reading the initial state from a streaming list.
func streaming() sharedinformer.Options {
	return sharedinformer.Options{Initial: reflector.Auto}
}

// fault makes all requests for pods with this verb fail until the fault is removed.
func (r *rig) fault(verb string, do ...apiservertest.Action) apiservertest.FaultID {
	return r.srv.Faults().Add(apiservertest.Fault{Verb: verb, Resource: "pods", Do: do})
}

// once makes the next request for pods with this verb fail.
func (r *rig) once(verb string, do ...apiservertest.Action) {
	r.srv.Faults().Add(apiservertest.Fault{Verb: verb, Resource: "pods", Count: 1, Do: do})
}

// fill creates n pods on the server.
func (r *rig) fill(n int) {
	r.Helper()
	for k := range n {
		r.put(pod("p" + string(rune('a'+k))))
	}
}

// inStep fails the test unless the cache equals the content of the server.
func (r *rig) inStep(i *sharedinformer.Informer[*corev1.Pod]) {
	r.Helper()
	require.Equal(r, r.truth(), cached(i))
}

// within fails the test unless from <= got <= to.
func (r *rig) within(from, to, got time.Duration) {
	r.Helper()
	if got < from || got > to {
		r.Errorf("got %s, want between %s and %s", got, from, to)
	}
}

// phases returns the phases of failures, in order.
func phases(all []failure.Failure) []failure.Phase {
	var names []failure.Phase
	for _, f := range all {
		names = append(names, f.Phase)
	}
	return names
}

// distinct removes elements that repeat the preceding element.
func distinct[E comparable](all []E) []E { return slices.Compact(slices.Clone(all)) }
