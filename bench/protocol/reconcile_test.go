package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// told is a session of whose harness every answer is there already.
func told(params Params, said *recorder) *Session {
	answers := strings.NewReader(strings.Repeat(`{"go":true}`, 9))
	return &Session{Start: Start{Objects: 2, Params: params}, in: json.NewDecoder(answers), out: said}
}

func TestReconcilesAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said recorder
		s := told(Params{Events: 1}, &said)
		r := NewReconciles(s)
		ended := make(chan error, 1)
		go func() {
			ended <- r.Run(t.Context(), s, ReconcileSteps{Go: func() {}, Sync: func(context.Context) error { return nil }})
		}()
		for _, step := range []string{MarkCached, MarkCached, MarkSynced} {
			synctest.Wait()
			marks := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
			require.Contains(t, string(marks[len(marks)-1]), `"`+step+`"`)
			require.Empty(t, ended)
			r.Reconciled(true)
		}
		require.NoError(t, <-ended)
		require.Contains(t, string(said), `"`+MarkDone+`"`)
		require.EqualValues(t, 3, r.Count())
		require.Contains(t, s.Metrics, "first_reconcile_s")
	})
}

func TestReconcilesFail(t *testing.T) {
	var said recorder
	s := told(Params{Events: 1}, &said)
	r := NewReconciles(s)
	for range 3 {
		r.Reconciled(false)
	}
	synced := func(context.Context) error { return nil }
	require.ErrorContains(t, r.Run(t.Context(), s, ReconcileSteps{Go: func() {}, Sync: synced}), "3 reconciles did not find")

	ctx, cancel := context.WithCancelCause(t.Context())
	died := errors.New("died")
	s = told(Params{Events: 1}, &said)
	require.ErrorIs(t, NewReconciles(s).Run(ctx, s, ReconcileSteps{Go: func() { cancel(died) }, Sync: synced}), died)
}
