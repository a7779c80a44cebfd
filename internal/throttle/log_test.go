package throttle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/throttle"
)

// logged reports a problem once a second for some time and returns the number of
// occurrences since the message before, for each message.
func logged(l *throttle.Log, seconds int) (all []int) {
	for range seconds {
		l.Do(func(more int) { all = append(all, more) })
		time.Sleep(time.Second)
	}
	return all
}

func TestIntervalsDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l throttle.Log
		require.Equal(t, []int{0, 9, 19, 39}, logged(&l, 75))
		require.Len(t, logged(&l, 24*60*60), 146, "after a day, one every ten minutes")
	})
}

func TestANewProblemIsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l throttle.Log
		logged(&l, 75)
		time.Sleep(10 * time.Minute)
		require.Equal(t, []int{4, 9}, logged(&l, 15), "the intervals start over")
	})
}
