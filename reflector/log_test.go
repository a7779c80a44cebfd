package reflector

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

func TestAFailureIsLoggedWithEachAttributeOnce(t *testing.T) {
	var log bytes.Buffer
	r := New(&script{}, nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r.record(&failure.Failure{
		Phase: failure.PhaseTransform, Handler: "strip shop/main.go:12",
		Key: object.Key{Namespace: "shop", Name: "x"}, Err: errors.New("no spec"),
	})
	require.Contains(t, log.String(),
		`level=WARN msg="reflector failure" resource=things phase=transform key=shop/x attempts=1 err="no spec" in="strip shop/main.go:12"`)
}

// The reflector logs once that a kind is not served, and not again at each attempt.
func TestAKindThatIsNotServedIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	r := New(&script{}, nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	missing := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Thing"}, SearchedVersions: []string{"v1"}}
	fail := func(err error) int {
		r.record(&failure.Failure{Phase: failure.PhaseList, Err: err})
		return strings.Count(log.String(), "level=WARN")
	}
	require.Equal(t, 1, fail(missing))
	require.Equal(t, 1, fail(missing))
	require.Equal(t, 1, fail(missing))
	require.Equal(t, 2, fail(errors.New("connection refused")))
	require.Equal(t, 3, fail(missing), "it is known again")
	require.Equal(t, 3, fail(missing))
	r.resetAttempts()
	require.Equal(t, 4, fail(missing), "it was served meanwhile")
	require.EqualValues(t, 7, r.Status().Failures)
}

// A kind is served, whatever a transform returns, and again as soon as the server accepts a stream or sends a list.
func TestWhichKindsAreServed(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "")
	r := New(&script{}, nil, Options{})
	r.record(&failure.Failure{Phase: failure.PhaseTransform, Err: missing})
	require.False(t, r.Status().NotServed())
	for _, phase := range []failure.Phase{failure.PhaseResolve, failure.PhaseList, failure.PhaseWatchOpen, failure.PhaseWatch} {
		r.record(&failure.Failure{Phase: phase, Err: missing})
		require.True(t, r.Status().NotServed(), phase)
	}

	for initial, requests := range map[Initial]uint64{List: 2, Auto: 3, WatchList: 2} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{script: &script{
				lists:   []answer{{err: missing}, {items: []object.Head{obj("a", 1), obj("b", 2)}, rv: "5"}},
				watches: []answer{{err: missing}, {block: true}},
			}}
			r := New(s, deltafifo.New(deltafifo.Options{}), Options{Initial: initial})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			for r.Status().Lists < requests {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			require.Positive(t, r.Status().Attempts)
			require.Empty(t, r.Status().RV)
			require.False(t, r.Status().NotServed())
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

// slow is a script whose lists stop for a while after each item.
type slow struct{ *script }

func (s *slow) List(ctx context.Context, o source.Request) source.List[object.Head] {
	list := s.script.List(ctx, o)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if !yield(item, err) {
				return
			}
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
		}
	}
	return list
}
