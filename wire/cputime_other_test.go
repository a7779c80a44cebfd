//go:build !unix

package wire

import (
	"testing"
	"time"
)

// cpuTime is not known here.
func cpuTime(*testing.B) time.Duration { return 0 }
