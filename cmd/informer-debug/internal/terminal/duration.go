package terminal

import (
	"fmt"
	"time"
)

// Duration formats a duration in at most six characters: 850ns, 41µs, 1.2ms, 340ms, 2.1s, 3m20s.
func Duration(d time.Duration) string {
	unit := func(u time.Duration, name string) string {
		if n := float64(d) / float64(u); n < 9.95 {
			return fmt.Sprintf("%.1f%s", n, name)
		}
		return fmt.Sprintf("%.0f%s", float64(d)/float64(u), name)
	}
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", d)
	case d < time.Millisecond-500:
		return unit(time.Microsecond, "µs")
	case d < time.Second-500*time.Microsecond:
		return unit(time.Millisecond, "ms")
	case d < time.Minute:
		return unit(time.Second, "s")
	}
	return d.Round(time.Second).String()
}

// Times returns "once" or "n times".
func Times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Counted returns a count with its noun, such as "1 list" or "2 lists".
func Counted[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
