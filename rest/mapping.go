package rest

import (
	"context"
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// Mapping says where a kind is served.
type Mapping struct {
	Kind       object.GVK
	Resource   object.GVR
	Namespaced bool
	Singular   string
	ShortNames []string
	Categories []string
	Verbs      []string // the verbs of the resource itself, such as "list" and "watch"

	// Subresources names what is served below an object of the resource, such
	// as "status" and "scale".
	Subresources []string
}

// getter is what discovery needs of a client: one GET of an absolute path.
type getter interface {
	getRaw(ctx context.Context, path, accept string) (body []byte, contentType string, err error)
}

// kindMapper finds out where a kind is served.
type kindMapper interface {
	MappingForKind(ctx context.Context, gvk object.GVK) (Mapping, error)
}

// location is where a kind is served, found when it is first needed. Only a
// success is remembered, so that a kind may be installed later.
type location struct {
	kind   object.GVK
	mapper kindMapper

	mu      sync.Mutex // guards the rest; not held during discovery
	known   bool       // mapping may be used
	seen    bool       // mapping was known at some time
	mapping Mapping
}

func (l *location) get(ctx context.Context) (Mapping, error) {
	if m, ok := l.remembered(); ok {
		return m, nil
	}
	m, err := l.mapper.MappingForKind(ctx, l.kind)
	if err != nil {
		return Mapping{}, &source.ResolveError{Kind: l.kind, Err: err}
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
	if learned, ok := l.mapper.(*Mapper); ok {
		learned.Invalidate()
	}
}

func (l *location) remembered() (Mapping, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mapping, l.known
}

// peek returns the mapping, or the last one, to be named in messages.
func (l *location) peek() (Mapping, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mapping, l.known || l.seen
}
