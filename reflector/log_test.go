package reflector

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
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
