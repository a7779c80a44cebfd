package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutageIsLoggedAtGrowingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		trouble := Trouble{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		boom := errors.New("boom")
		fail := func(d time.Duration) int {
			log.Reset()
			for range d / time.Second {
				trouble.Failed("it failed", boom)
				time.Sleep(time.Second)
			}
			return strings.Count(log.String(), "it failed")
		}
		trouble.Answered()
		require.Empty(t, log.String())
		require.Equal(t, 1, fail(8*time.Second))
		attempts, last := trouble.State()
		require.Equal(t, 8, attempts)
		require.ErrorIs(t, last, boom)
		text, err := json.Marshal(last)
		require.NoError(t, err)
		require.Equal(t, `"boom"`, string(text))
		require.Equal(t, time.Second, time.Since(last.When))

		trouble.Answered()
		require.Contains(t, log.String(), `msg="the API server answers again" failed=8`)
		attempts, last = trouble.State()
		require.Zero(t, attempts)
		require.Error(t, last, "it is remembered")

		require.Equal(t, 11, fail(time.Hour), "at once, after 10 s, 20 s, ... and then every 10 minutes")
		require.Contains(t, log.String(), "attempts=")
	})
}
