package scenario

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

func TestTheFirstReconcileIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cached, says := range map[int]string{6: "", 5: "5 objects were cached at the first reconcile, want 6"} {
			var said bytes.Buffer
			s := told(protocol.Params{Kinds: 3}, &said)
			first, started := NewFirst(), make(chan struct{})
			ended := make(chan error, 1)
			go func() {
				_, err := ManagerStart(t.Context(), s, func() { close(started) }, first, func() (*protocol.Result, error) {
					return &protocol.Result{Objects: cached}, nil
				})
				ended <- err
			}()
			<-started
			synctest.Wait()
			require.Contains(t, said.String(), `"`+protocol.MarkBegin+`"`)
			require.NotContains(t, said.String(), `"`+protocol.MarkDone+`"`)
			first.Reconciled()
			first.Reconciled()
			if err := <-ended; says == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, says)
			}
			require.Contains(t, said.String(), `"`+protocol.MarkDone+`"`)
		}
	})
}

func TestAManagerThatEndsFails(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	died := errors.New("died")
	_, err := ManagerStart(ctx, told(nil, new(bytes.Buffer)), func() { cancel(died) }, NewFirst(), nil)
	require.ErrorIs(t, err, died)
}
