package top

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

func word(text string) cell { return cell{text: plain(text)} }

func count[N int | int64 | uint64](n N) cell {
	return cell{strconv.FormatInt(int64(n), 10), float64(n)}
}

// countOrDash returns a dash for zero.
func countOrDash[N int | int64 | uint64](n N) cell {
	if n <= 0 {
		return cell{text: "-"}
	}
	return count(n)
}

func rate(perSecond float64, known bool) cell {
	switch {
	case !known:
		return cell{text: "-"}
	case perSecond == 0:
		return cell{text: "0"}
	case perSecond < 9.95:
		return cell{strconv.FormatFloat(perSecond, 'f', 1, 64), perSecond}
	}
	return cell{strconv.FormatFloat(math.Round(perSecond), 'f', 0, 64), perSecond}
}

func lasting(d time.Duration) cell {
	if d <= 0 {
		return cell{text: "-"}
	}
	return cell{short(d), d.Seconds()}
}

func size[N int64 | uint64 | int](bytes N) cell {
	if bytes <= 0 {
		return cell{text: "-"}
	}
	return cell{sizeText(float64(bytes)), float64(bytes)}
}

func sizeText(bytes float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if bytes < 999.5 || unit == "GB" {
			if unit != "B" && bytes < 9.95 {
				return fmt.Sprintf("%.1f %s", bytes, unit)
			}
			return fmt.Sprintf("%.0f %s", bytes, unit)
		}
		bytes /= 1000
	}
	return ""
}

// short formats a duration with two or three digits.
func short(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d < u.of {
			continue
		}
		if d >= time.Minute {
			return d.Round(time.Second).String()
		}
		if n := float64(d) / float64(u.of); n < 9.95 {
			return fmt.Sprintf("%.1f%s", n, u.name)
		}
		return fmt.Sprintf("%.0f%s", float64(d)/float64(u.of), u.name)
	}
	return d.String()
}

func yes(b bool) cell {
	if b {
		return cell{"yes", 1}
	}
	return cell{"no", 0}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
