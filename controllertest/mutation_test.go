package controllertest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// test is a testing.T that only notes its errors.
type test []string

func (t *test) Error(args ...any) { *t = append(*t, fmt.Sprint(args...)) }

// A change of a cached object fails the test; other failures are part of many tests.
func TestOnlyAMutationFailsTheTest(t *testing.T) {
	stop := func(context.Context, *failure.Failure) failure.Verdict { return failure.Stop }
	mutation := &failure.Failure{
		Resource: "pods", Phase: failure.PhaseCache, Key: object.Key{Namespace: "shop", Name: "a"},
		Err: &sharedinformer.MutationError{Type: "*v1.Pod", Path: ".Labels"},
	}
	var noted test
	require.Equal(t, failure.Stop, failOnMutation(&noted, stop)(t.Context(), mutation))
	require.Equal(t, failure.Retry, failOnMutation(&noted, nil)(t.Context(), mutation))
	require.Len(t, noted, 2)
	require.Contains(t, noted[0], "pods: cache: shop/a: *v1.Pod in the cache was changed at .Labels: ")
	require.Equal(t, failure.Retry, failOnMutation(&noted, nil)(t.Context(), &failure.Failure{Err: errors.New("other")}))
	require.Len(t, noted, 2)
}
