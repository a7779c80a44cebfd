package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
)

// The levels of a finding.
const (
	levelOK      = "ok"
	levelNote    = "note" // not a problem, but may explain why nothing is happening
	levelWarning = "warning"
	levelProblem = "problem"
)

// finding is the result of one check.
type finding struct {
	Level string
	About string
	What  string
	Do    string `json:",omitzero"` // what to do about it; empty if nothing
	YAML  string `json:",omitzero"` // a manifest that fixes it
}

// findings collects the results of the checks.
type findings struct{ all []finding }

func (f *findings) add(level, about, do, what string, args ...any) {
	f.all = append(f.all, finding{Level: level, About: about, Do: do, What: fmt.Sprintf(what, args...)})
}

// order sorts by severity, stably.
func (f *findings) order() {
	levels := []string{levelProblem, levelWarning, levelNote, levelOK}
	slices.SortStableFunc(f.all, func(a, b finding) int {
		return slices.Index(levels, a.Level) - slices.Index(levels, b.Level)
	})
}

// count returns the number of findings at a level.
func (f *findings) count(level string) (n int) {
	for _, one := range f.all {
		if one.Level == level {
			n++
		}
	}
	return n
}

// write prints one line per finding, followed by the manifests.
func (f *findings) write(w io.Writer, format string) error {
	if format == "json" {
		return debug.WriteJSON(w, f.all)
	}
	var b strings.Builder
	var yaml []string
	for n := range f.all {
		one := &f.all[n]
		text := fmt.Sprintf("%-8s %s: %s", one.Level, one.About, one.What)
		if one.Do != "" {
			text += "; " + one.Do
		}
		fmt.Fprintf(&b, "%s\n", terminal.OneLine(text))
		if one.YAML != "" && !slices.Contains(yaml, one.YAML) {
			yaml = append(yaml, one.YAML)
		}
	}
	if len(yaml) > 0 {
		fmt.Fprintf(&b, "\n%s", strings.Join(yaml, "---\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
