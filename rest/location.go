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
type location struct {
	kind   object.GVK
	mapper kindMapper

	mu      sync.Mutex // guards the rest; not held during discovery
	known   bool       // mapping may be used
	seen    bool       // mapping was known at some time
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

// forget lets the next call ask again, after the server did not know the place
// any more. A place that was given is kept.
func (l *location) forget() {
	if _, given := l.mapper.(noDiscovery); given {
		return
	}
	l.mu.Lock()
	l.known = false
	l.mu.Unlock()
	if learned, ok := l.mapper.(*discovery.Mapper); ok {
		learned.Invalidate()
	}
}

func (l *location) remembered() (discovery.Mapping, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mapping, l.known
}

// peek returns the mapping, or the last one, to be named in messages.
func (l *location) peek() (discovery.Mapping, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mapping, l.known || l.seen
}
