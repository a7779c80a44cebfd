package terminal

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Bytes is a number of bytes with a unit.
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

// OrDash is a text, or a dash where there is none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OneLine keeps foreign text from breaking the view: line breaks and control
// characters, which a terminal would obey, become spaces.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
	}), " ")
}

// Completions leaves out what a shell or a terminal would take for something else. Cobra takes
// what follows a tab for a description.
func Completions(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == "" || OneLine(name) != name || strings.Contains(name, "\t") })
}
