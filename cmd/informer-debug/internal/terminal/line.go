package terminal

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Bytes formats a number of bytes with a unit.
func Bytes(n int64) string {
	size, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// OrDash returns s, or a dash if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OneLine makes untrusted text safe to print on one line, by replacing line breaks and terminal control
// characters with spaces.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
}

// Completions drops names that a shell or terminal would misinterpret, or cobra, which treats text after a
// tab as a description.
func Completions(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || OneLine(name) != name || strings.Contains(name, "\t") })
}
