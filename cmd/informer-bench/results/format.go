package results

import (
	"fmt"
	"math"
	"strings"
)

// Format formats a figure with three significant digits and the unit from the metric's name: 2.31 s, 44.1 µs,
// 1.25 GB, 36.1k/s.
func Format(metric string, v float64) string {
	switch {
	case strings.HasSuffix(metric, "_per_s"):
		return scaled(v, 1000, "", "k", "M", "G") + "/s"
	case strings.HasSuffix(metric, "_s"):
		return duration(v)
	case strings.HasSuffix(metric, "_bytes"), strings.Contains(metric, "_bytes_per_"):
		return scaled(v, 1000, " B", " KB", " MB", " GB", " TB")
	}
	return digits(v)
}

func duration(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 0.9995e-6:
		return digits(s*1e9) + " ns"
	case a < 0.9995e-3:
		return digits(s*1e6) + " µs"
	case a < 0.9995:
		return digits(s*1e3) + " ms"
	}
	return digits(s) + " s"
}

// scaled divides v by step until it is short enough, and appends the matching unit.
func scaled(v, step float64, units ...string) string {
	unit := 0
	for unit < len(units)-1 && math.Abs(v) >= 0.9995*step {
		v /= step
		unit++
	}
	return digits(v) + units[unit]
}

// digits formats three significant digits, without an exponent.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case v == math.Trunc(v) && a < 10_000:
		return fmt.Sprintf("%.0f", v)
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.9995:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
