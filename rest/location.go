package rest

import (
	"context"
	"sync"
	"time"

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
// To find it: what the mapper knows by now, without asking anybody; or what is
// remembered; or else, for a built-in kind, the place that it has on every server; or
// else what the mapper says. After the server answered 404 for the place itself, forget
// makes the mapper be asked, for a built-in kind too. A definition that returns with
// another scope makes no 404 where the scope is what a caller is refused for; doubt
// makes the mapper be asked then.
type location struct {
	kind   object.GVK
	mapper kindMapper // nil where the place was given, and is kept

	mu      sync.Mutex // guards the rest; not held during discovery
	known   bool       // mapping may be used
	seen    bool       // mapping was known at some time
	wrong   bool       // the server has answered 404: the built-in place is not believed
	mapping discovery.Mapping
	asked   time.Time // when the mapper answered last; zero if it has not
	doubts  int       // calls of doubt that ask the mapper
}

// doubtEvery is how often the scope of a kind is looked up again because a caller's key
// has another, and how long after it was looked up at first. As a rule the caller is
// wrong.
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

// doubt looks the place up again after a caller was refused because of the scope that
// it was used with, and reports whether the scope has changed. While a look-up runs
// others wait for its answer: what is remembered is in doubt for them too. After it they
// go on with that. A look-up whose caller gave up counts for nothing.
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
	if learned, ok := l.mapper.(*discovery.Mapper); ok && l.known {
		if m, ok := learned.Known(l.kind); ok {
			l.mapping = m // which may be newer
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

// peek returns the mapping, or the last one, to be named in messages.
func (l *location) peek() (discovery.Mapping, bool) {
	m, known := l.remembered()
	l.mu.Lock()
	defer l.mu.Unlock()
	return m, known || l.seen
}
