package discovery

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// Requests call the user's transport in goroutines of discovery.
func TestAGetThatPanicsOrExitsIsAFailure(t *testing.T) {
	f := newFakeServer()
	for name, hook := range map[string]func(){
		"panics": func() { panic("oh") },
		"exits":  runtime.Goexit,
	} {
		for _, path := range []string{coreRoot, groupsRoot, "/apis/apps/v1"} {
			t.Run(name+" at "+path, func(t *testing.T) {
				f.classic = map[string]bool{groupsRoot: true}
				_, err := discover(t.Context(), func(ctx context.Context, asked, accept string) ([]byte, string, error) {
					if asked == path {
						hook()
					}
					return f.get(ctx, asked, accept)
				})
				var partial *Error
				require.ErrorAs(t, err, &partial)
				require.Len(t, partial.Failures, 1)
				require.Equal(t, path, partial.Failures[0].Path)
				if name == "panics" {
					var panicked *failure.PanicError
					require.ErrorAs(t, err, &panicked)
				} else {
					var exited *failure.GoexitError
					require.ErrorAs(t, err, &exited)
				}
			})
		}
	}
}

// lateEnd is a context that ends after it was asked a number of times.
type lateEnd struct {
	context.Context
	left atomic.Int64
}

func (c *lateEnd) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A context may end at any moment, even between two checks.
func TestAContextThatEndsAtAnyMoment(t *testing.T) {
	for looks := range int64(40) {
		f := newFakeServer()
		m := NewMapper(f.get, nil)
		ctx := &lateEnd{Context: t.Context()}
		ctx.left.Store(looks)
		_, err := m.MappingForResource(ctx, object.GVR{Resource: "pods"})
		if err != nil {
			_, err = m.MappingForResource(t.Context(), object.GVR{Resource: "pods"})
		}
		require.NoError(t, err)
	}
}

// A server that fails in ten thousand parts of its API must not cause a huge log line.
func TestAnErrorNamesAFewParts(t *testing.T) {
	var e Error
	for n := range 10_000 {
		e.Failures = append(e.Failures, Failure{Path: fmt.Sprint("/apis/g/v", n), Err: fmt.Errorf("reason %d", n)})
	}
	require.Less(t, len(e.Error()), 1000)
	require.Contains(t, e.Error(), "reason 19; and 9980 more")
}
