package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ns", 850: "850ns", 1000: "1.0µs", 41_200: "41µs", 9_960: "10µs", 999_600: "1.0ms", 1_230_000: "1.2ms",
		340 * time.Millisecond: "340ms", 999_700 * time.Microsecond: "1.0s", 2100 * time.Millisecond: "2.1s",
		59 * time.Second: "59s", 200 * time.Second: "3m20s", -40_000: "-40µs",
	} {
		assert.Equal(t, want, Duration(d), "%d ns", d)
	}
}
