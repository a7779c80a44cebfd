//go:build !unix

package wire

import (
	"testing"
	"time"
)

// cpuTime returns 0 on systems without getrusage.
func cpuTime(*testing.B) time.Duration { return 0 }
