package scenario

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

func TestWindowHoldsTheNextEventBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := NewSmallFeed(&protocol.Session{Start: protocol.Start{Objects: 1}})
		window := feed.Window(3)
		ctx, cancel := context.WithCancel(t.Context())
		sent := 0
		go func() {
			for range feed.Events(ctx) {
				sent++
			}
			sent = -1
		}()
		feed.Go()
		synctest.Wait()
		require.Equal(t, 3, sent)
		window.Hear()
		synctest.Wait()
		require.Equal(t, 4, sent)
		require.EqualValues(t, 1, window.Heard())
		cancel()
		synctest.Wait()
		require.Equal(t, -1, sent, "it ends with the context, though nobody hears")
	})
}
