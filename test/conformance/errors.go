package conformance

import (
	"slices"
	"strings"
	"sync"
)

// errorList collects the errors reported by a stack.
type errorList struct {
	mu   sync.Mutex
	text []string
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, err.Error())
}

func (l *errorList) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

// mention reports whether any error contains s.
func (l *errorList) mention(s string) bool {
	return slices.ContainsFunc(l.all(), func(text string) bool { return strings.Contains(text, s) })
}
