package rest

import (
	"context"
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
)

// kindMapper finds out where a kind is served.
type kindMapper interface {
	MappingForKind(ctx context.Context, gvk object.GVK) (discovery.Mapping, error)
}

// location is where a kind is served, found when it is first needed. Only a
// success is remembered, so that a kind may be installed later.
//
// To find it: what is remembered; or else, for a built-in kind, the place that it
// has on every server; or else what the mapper says. After the server answered 404
// for the place itself, forget makes the mapper be asked, for a built-in kind too.
type location struct {
	kind   object.GVK
	mapper kindMapper // nil where the place was given, and is kept

	mu      sync.Mutex // guards the rest; not held during discovery
	known   bool       // mapping may be used
	seen    bool       // mapping was known at some time
	wrong   bool       // the server has answered 404: the built-in place is not believed
	mapping discovery.Mapping
}

func (l *location) get(ctx context.Context) (discovery.Mapping, error) {
	if m, ok := l.remembered(); ok {
		return m, nil
	}
	m, err := l.mapper.MappingForKind(ctx, l.kind)
	if err != nil {
		return discovery.Mapping{}, &source.ResolveError{Kind: l.kind, Err: err}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mapping, l.known, l.seen = m, true, true
	return m, nil
}

// forget makes the next call ask the mapper, after the server did not know the
// place any more. A place that was given is kept.
func (l *location) forget() {
	if l.mapper == nil {
		return
	}
	l.mu.Lock()
	l.known, l.wrong = false, true
	l.mu.Unlock()
	if learned, ok := l.mapper.(*discovery.Mapper); ok {
		learned.Invalidate()
	}
}

// remembered returns what can be said without asking anybody.
func (l *location) remembered() (discovery.Mapping, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known || l.wrong || l.mapper == nil {
		return l.mapping, l.known
	}
	if m, ok := discovery.Builtin(l.kind); ok {
		l.mapping, l.known, l.seen = m, true, true
	}
	return l.mapping, l.known
}

// peek returns the mapping, or the last one, to be named in messages.
func (l *location) peek() (discovery.Mapping, bool) {
	m, known := l.remembered()
	l.mu.Lock()
	defer l.mu.Unlock()
	return m, known || l.seen
}
