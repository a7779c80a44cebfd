package recording

import (
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A recorder writes no more requests than a file may have.
func TestMoreRequestsThanAFileMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 10
		f := recorded(t, Options{}, func(r *Recorder) {
			q, ok := read(get(t, pods))
			require.True(t, ok)
			for n := range maxRequests + more {
				id, ok := r.begin(&q)
				require.True(t, ok)
				r.take(event{record: record{kind: kindEnd, request: id, payload: encode(ending{Error: "no"})}})
				if n%10_000 == 0 {
					synctest.Wait()
				}
			}
		})
		require.NoError(t, f.Damage)
		require.Equal(t, maxRequests+more, len(f.Requests)+f.LeftOut.Requests)
	})
}

// A recording that ends because the disk is behind is not one that was closed.
func TestARecordingThatIsBehindIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Create(filepath.Join(t.TempDir(), "test.recording"), Options{})
		require.NoError(t, err)
		one(t, r)
		r.mu.Lock()
		r.bytes = maxWaiting
		r.mu.Unlock()
		one(t, r)
		require.ErrorIs(t, r.Close(), ErrBehind)
		f := opened(t, r.path)
		require.ErrorIs(t, f.Damage, ErrCutOff)
		require.NotEmpty(t, f.Requests)
	})
}
