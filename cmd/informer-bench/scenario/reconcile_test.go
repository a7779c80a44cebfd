package scenario

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// told returns a session whose harness has already sent every answer.
func told(params protocol.Params, said io.Writer) *protocol.Session {
	answers := strings.NewReader(strings.Repeat(`{"go":true}`, 9))
	return protocol.NewSession(protocol.Start{Objects: 2, Params: params}, answers, said)
}

func TestReconcilesAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		s := told(protocol.Params{Events: 1}, &said)
		r := NewReconciles(s)
		ended := make(chan error, 1)
		go func() {
			ended <- r.Run(t.Context(), s, ReconcileSteps{Go: func() {}, Sync: func(context.Context) error { return nil }})
		}()
		for _, step := range []string{protocol.MarkCached, protocol.MarkCached, protocol.MarkSynced} {
			synctest.Wait()
			marks := bytes.Split(bytes.TrimSpace(said.Bytes()), []byte("\n"))
			require.Contains(t, string(marks[len(marks)-1]), `"`+step+`"`)
			require.Empty(t, ended)
			r.Reconciled(true)
		}
		require.NoError(t, <-ended)
		require.Contains(t, said.String(), `"`+protocol.MarkDone+`"`)
		require.EqualValues(t, 3, r.Count())
		require.Contains(t, s.Metrics, results.FirstReconcile)
	})
}

func TestReconcilesFail(t *testing.T) {
	var said bytes.Buffer
	s := told(protocol.Params{Events: 1}, &said)
	r := NewReconciles(s)
	for range 3 {
		r.Reconciled(false)
	}
	synced := func(context.Context) error { return nil }
	require.ErrorContains(t, r.Run(t.Context(), s, ReconcileSteps{Go: func() {}, Sync: synced}), "3 reconciles did not find")

	ctx, cancel := context.WithCancelCause(t.Context())
	died := errors.New("died")
	s = told(protocol.Params{Events: 1}, &said)
	require.ErrorIs(t, NewReconciles(s).Run(ctx, s, ReconcileSteps{Go: func() { cancel(died) }, Sync: synced}), died)
}
