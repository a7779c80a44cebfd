package rest

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/source"
)

type kindMapper interface {
	MappingForKind(ctx context.Context, gvk object.GVK) (discovery.Mapping, error)
}

// location is where a kind is served. It is looked up on first use, and only successful lookups are cached,
// so the kind may be installed later.
//
// The lookup first tries a location that the mapper knows without a request, then the cached mapping, then
// the fixed location of a built-in kind. Only if there is none of these does it let the mapper send a
// request. After a 404 for the location, forget makes the next lookup ask the mapper, even for a built-in
// kind. If a CRD is recreated with a different scope, there may be no 404, because the client itself rejects
// requests with the wrong scope. In that case doubt asks the mapper.
type location struct {
	kind   object.GVK
	mapper kindMapper // nil if the location was set by the caller and never changes

	mu      sync.Mutex // guards the rest; not held during discovery
	known   bool       // mapping is valid
	seen    bool       // mapping has been valid before
	wrong   bool       // the server responded with 404: do not use the built-in location
	mapping discovery.Mapping
	asked   time.Time // when the mapper last responded; zero if never
	doubts  int       // number of doubt calls that are asking the mapper
}

// doubtEvery is the minimum time between lookups of a kind's scope that are triggered by a key with a
// different scope. Usually it is the caller who is wrong.
const doubtEvery = 30 * time.Second

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
	l.mapping, l.known, l.seen, l.asked = m, true, true, time.Now()
	return m, nil
}

// doubt repeats the lookup after a caller was rejected because of its scope, and reports whether the
// scope has changed. Concurrent callers wait for a lookup in progress and use its result. If that lookup's
// caller gave up, they do not use its result.
func (l *location) doubt(ctx context.Context, used discovery.Mapping) (discovery.Mapping, bool) {
	l.mu.Lock()
	_, builtin := discovery.Builtin(l.kind)
	switch {
	case l.mapper == nil || builtin && !l.wrong:
		l.mu.Unlock()
		return discovery.Mapping{}, false
	case l.mapping.Namespaced != used.Namespaced || l.doubts == 0 && time.Since(l.asked) < doubtEvery:
		defer l.mu.Unlock()
		return l.mapping, l.mapping.Namespaced != used.Namespaced
	}
	l.doubts++
	first := l.doubts == 1
	l.mu.Unlock()
	if learned, ok := l.mapper.(*discovery.Mapper); ok && first {
		learned.Invalidate()
	}
	m, err := l.mapper.MappingForKind(ctx, l.kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubts--
	if err == nil || ctx.Err() == nil {
		l.asked = time.Now()
	}
	if err != nil || m.Namespaced == used.Namespaced {
		return discovery.Mapping{}, false
	}
	l.mapping, l.known, l.seen = m, true, true
	return m, true
}

// forget makes the next call ask the mapper. It is called after a 404 for the location. A location set by the
// caller is kept.
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

// remembered returns the mapping if it is known without a request.
func (l *location) remembered() (discovery.Mapping, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if learned, ok := l.mapper.(*discovery.Mapper); ok && l.known {
		if m, ok := learned.Known(l.kind); ok {
			l.mapping = m // may be newer
		}
	}
	if l.known || l.wrong || l.mapper == nil {
		return l.mapping, l.known
	}
	if m, ok := discovery.Builtin(l.kind); ok {
		l.mapping, l.known, l.seen = m, true, true
	}
	return l.mapping, l.known
}

// peek returns the current or last known mapping, for messages.
func (l *location) peek() (discovery.Mapping, bool) {
	m, known := l.remembered()
	l.mu.Lock()
	defer l.mu.Unlock()
	return m, known || l.seen
}
