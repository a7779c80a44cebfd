package sharedinformer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/reflector"
)

// A watch that was just opened again hides no other that has been silent for long, nor does it count as silent since
// the time before.
func TestTheSilenceOfSeveralWatches(t *testing.T) {
	now := time.Now()
	watch := func(opened, heard time.Duration) reflector.Status {
		return reflector.Status{State: reflector.Watching, RV: "5", Since: now.Add(-opened), Heard: now.Add(-heard), Bookmarks: 5}
	}
	for want, each := range map[time.Duration][]reflector.Status{
		9 * time.Minute:  {watch(20*time.Second, 10*time.Second), watch(10*time.Minute, 9*time.Minute)},
		10 * time.Second: {watch(8*time.Minute, 10*time.Second), watch(time.Second, 5*time.Minute)},
		time.Minute:      {watch(time.Hour, time.Minute)},
	} {
		all := each[0]
		for _, one := range each[1:] {
			all = combined(all, one)
		}
		s := Status{Reflector: all, Namespaces: each}
		require.Equal(t, want, s.Silence(now))
	}
	require.Equal(t, time.Minute, Status{Reflector: watch(time.Hour, time.Minute)}.Silence(now))
}
