package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

const (
	// minRediscovery is the least time between the end of one discovery run and
	// the start of the next. It is also how long a new question may have to wait
	// for an answer that is not out of date. One or two requests a second at
	// most are nothing to a server, and a second is not long to wait.
	minRediscovery = time.Second

	// maxRediscovery is the longest time for which the same question is
	// answered from what is known before the server is asked again. It bounds
	// how late a new custom resource definition is noticed when it is asked for over
	// and over; callers have a back-off besides.
	maxRediscovery = 10 * time.Second

	// maxRun bounds a run. A server answers in a second; one request that is never
	// answered, on a connection that lives, must not keep everybody waiting.
	maxRun = 30 * time.Second

	// maxMisses bounds the questions whose back-off is remembered.
	maxMisses = 1024
)

// Mapper finds out where a kind is served: a RESTMapper that learns. It asks the
// server on first use, and again about what it does not know. So it finds custom
// resource definitions that are installed later.
//
// To look something up:
//
//  1. What is known answers at once, without a request.
//  2. Otherwise the server is asked again, by one caller at a time; callers who
//     meanwhile miss something share the run. A run starts at least a second
//     after the one before it ended: a caller may wait for that.
//  3. What the new run does not know either is a *NoMatchError. The same
//     question asked again is answered with that error at once for one second,
//     then two, four, up to 10 seconds, before the server is asked again. Its
//     back-off is forgotten when it was not asked for 10 seconds beyond that.
//
// A run takes 30 seconds at most; what has not answered by then failed. A run that
// fails altogether leaves what is known in place; lookups that need
// it return the reason, and for a second the same reason without a request. A
// run in which some groups fail counts, with what was known earlier of those
// groups; see Error.
//
// A document that the server refused with a Retry-After is not asked for again before that
// is over, or source.MaxRetryAfter: until then it fails with the same reason.
//
// A lookup keeps finding a definition that was removed. If the server answers 404
// for a whole resource, call Invalidate.
//
// All methods may be called by many goroutines. The slices within a Mapping
// are shared and must not be changed. Mapper starts no goroutine that outlives
// a call: discovery runs under the context of the caller that began it. If that
// ends, the next caller that waits begins anew.
type Mapper struct {
	get Get // heeds Retry-After
	log *slog.Logger

	// turn holds a token while its owner decides whether to run discovery, waits
	// until it may, and runs it. It is taken before mu and never while mu is held.
	turn chan struct{}

	mu sync.Mutex // guards what follows; held for a few instructions only, no call out
	// catalog is what is known; nil before the first run that succeeded.
	catalog *catalog
	// stale is set while catalog must not answer because of Invalidate.
	stale bool
	// epoch counts the calls of Invalidate: a run that began in an earlier one
	// does not answer questions of this one.
	epoch uint64
	// runs counts the runs that ended with an answer or a failure, ended is when
	// the last of them did, and failure why it failed altogether.
	runs    uint64
	ended   time.Time
	failure error
	// misses holds the back-off of the questions that had no answer.
	misses map[question]*miss
}

// miss is a question that the last run had no answer to.
type miss struct {
	err   error
	run   uint64        // the run whose catalog err was made from
	wait  time.Duration // between asking the server, doubled every time
	until time.Time     // when the server may be asked again
}

// question is what a caller wants to know: a kind or a partial resource,
// whichever is not empty.
type question struct {
	kind     object.GVK
	resource object.GVR
}

// NewMapper returns a Mapper that has learned nothing yet. A nil logger is
// silent.
func NewMapper(get Get, logger *slog.Logger) *Mapper {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Mapper{get: new(refusals).heed(get), log: logger, turn: make(chan struct{}, 1), misses: make(map[question]*miss)}
}

// MappingForKind returns where gvk is served. Group and kind are exact, the
// empty group is the core group; an empty version means the one that the
// server prefers for this kind.
//
// Errors: *NoMatchError when the server does not serve it, *AmbiguousError,
// the context's error, or the reason why discovery failed.
func (m *Mapper) MappingForKind(ctx context.Context, gvk object.GVK) (Mapping, error) {
	return m.one(ctx, question{kind: gvk})
}

// MappingForResource returns what gvr means, read as kubectl reads it. The
// resource may be a plural, a singular, a short name or a kind, in any case.
// The group may be empty, which is any group, or the beginning of one; the
// version may be empty. Where several match, a plural wins over a short name,
// that over a singular and that over a kind; then the core group, then the
// groups in the server's order, preferred versions before others.
//
// Errors: *NoMatchError when the server does not serve it, *AmbiguousError
// when two resources of one group version match equally well, the context's
// error, or the reason why discovery failed.
func (m *Mapper) MappingForResource(ctx context.Context, gvr object.GVR) (Mapping, error) {
	return m.one(ctx, question{resource: gvr})
}

// Mappings returns everything that the server serves: the core group first,
// then the groups in the server's order, within a group the preferred version
// first. It asks the server only when nothing is known yet or after
// Invalidate.
//
// A *Error beside mappings names the groups that could not be
// discovered. With any other error there are no mappings.
func (m *Mapper) Mappings(ctx context.Context) ([]Mapping, error) {
	known, asked := m.known()
	if known == nil {
		var err error
		if known, err = m.learn(ctx, asked); err != nil {
			return nil, err
		}
	}
	var all []Mapping
	for _, version := range known.served {
		all = append(all, version.mappings...)
	}
	if known.partial != nil {
		return all, known.partial
	}
	return all, nil
}

// Known returns where gvk is served by what the last run found out, also after
// Invalidate, and reports false where that does not tell. It asks nobody and does not
// wait.
func (m *Mapper) Known(gvk object.GVK) (Mapping, bool) {
	m.mu.Lock()
	known := m.catalog
	m.mu.Unlock()
	if known == nil || gvk.Kind == "" {
		return Mapping{}, false
	}
	found := known.find(question{kind: gvk})
	if len(found) == 0 {
		return Mapping{}, false
	}
	mapping, err := pick(question{kind: gvk}, found)
	return mapping, err == nil
}

// Invalidate makes the next lookup ask the server again, for example after a
// 404 for a resource that was there before. Many calls within a second cost
// one run. Mappings that were returned before stay as they are.
func (m *Mapper) Invalidate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = true
	m.epoch++
	clear(m.misses)
}

func (m *Mapper) one(ctx context.Context, q question) (Mapping, error) {
	found, err := m.find(ctx, q)
	if err != nil {
		return Mapping{}, err
	}
	return pick(q, found)
}

// find returns what q can mean, in order of preference and at least one, after
// asking the server if need be.
func (m *Mapper) find(ctx context.Context, q question) ([]*Mapping, error) {
	if q.kind.Kind == "" && q.resource.Resource == "" {
		return nil, errors.New("look up a mapping: no kind and no resource was given")
	}
	known, asked := m.known()
	if known != nil {
		if found := known.find(q); len(found) > 0 {
			return found, nil
		}
		if m.backingOff(q) {
			return nil, m.missed(q, known, false)
		}
	}
	known, err := m.learn(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", q, err)
	}
	if found := known.find(q); len(found) > 0 {
		return found, nil
	}
	return nil, m.missed(q, known, true)
}

// known returns what may answer now, nil if nothing, and how many runs have
// ended by now: the moment of asking in terms of discovery.
func (m *Mapper) known() (known *catalog, asked uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stale {
		return nil, m.runs
	}
	return m.catalog, m.runs
}

// learn returns what a run knows that ended after the question was asked: its
// own, or one that it waited for.
func (m *Mapper) learn(ctx context.Context, asked uint64) (*catalog, error) {
	select {
	case m.turn <- struct{}{}:
	default:
		source.ProgressOf(ctx).Step("", "discovery, which another caller began")
		select {
		case m.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for discovery: %w", context.Cause(ctx))
		}
	}
	defer func() { <-m.turn }()

	known, wait, err := m.learned(asked)
	if known != nil || err != nil {
		return known, err
	}
	// With no wait the timer could win against a context that is done already.
	if ctx.Err() == nil && wait > 0 {
		pause := time.NewTimer(wait)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("wait for discovery: %w", context.Cause(ctx))
	}
	return m.run(ctx)
}

// learned returns the outcome of a run that ended since the question was
// asked, or how long to wait before another may start. A failed run speaks
// also for the questions that are asked shortly after it.
func (m *Mapper) learned(asked uint64) (*catalog, time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs > asked && m.failure == nil && !m.stale {
		return m.catalog, 0, nil
	}
	wait := time.Duration(0)
	if m.runs > 0 {
		wait = minRediscovery - time.Since(m.ended)
	}
	if m.failure != nil && wait > 0 {
		return nil, 0, m.failure
	}
	return nil, wait, nil
}

// run asks the server and takes over what it says. The caller has the turn.
// A run that ends because its context did counts for nothing: whoever waits
// for the turn begins anew.
func (m *Mapper) run(ctx context.Context) (*catalog, error) {
	m.mu.Lock()
	earlier, epoch, number := m.catalog, m.epoch, m.runs+1 // no other run while we have the turn
	m.mu.Unlock()

	started := time.Now()
	served, err := discover(ctx, m.get)
	if served == nil && err != nil && ctx.Err() != nil {
		return nil, err
	}
	if served == nil && err != nil {
		m.finish(epoch, nil, err)
		return nil, err
	}
	partial, _ := errors.AsType[*Error](err)
	if earlier != nil {
		served = keepKnown(served, partial, earlier.served)
	}
	now := newCatalog(number, served, partial)
	m.finish(epoch, now, nil)
	m.logRun(earlier, now, time.Since(started))
	return now, nil
}

// finish takes over the outcome of a run that began in epoch: a catalog, or
// the reason why there is none.
func (m *Mapper) finish(epoch uint64, now *catalog, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs++
	m.ended = time.Now()
	m.failure = failure
	if failure != nil {
		return
	}
	m.catalog = now
	if epoch == m.epoch {
		m.stale = false
	}
}

// logRun says that a run is done, and warns of what could not be discovered
// when that has changed.
func (m *Mapper) logRun(earlier, now *catalog, took time.Duration) {
	m.log.Debug("discovery done", "groupVersions", len(now.served), "kinds", len(now.byKind), "took", took)
	if now.partial == nil {
		return
	}
	if earlier != nil && earlier.partial != nil && earlier.partial.Error() == now.partial.Error() {
		return
	}
	m.log.Warn("part of the API could not be discovered", "error", now.partial)
}

// backingOff reports whether q was asked not long ago, to no avail.
func (m *Mapper) backingOff(q question) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	past := m.misses[q]
	return past != nil && time.Now().Before(past.until)
}

// missed returns the error for a question that known does not answer. If the
// server was asked for it, its back-off grows: once a run, however many
// callers shared the run.
func (m *Mapper) missed(q question, known *catalog, asked bool) error {
	m.mu.Lock()
	past := m.misses[q]
	m.mu.Unlock()
	if past != nil && past.run == known.run {
		return past.err
	}

	next := &miss{err: newMissError(q, known), run: known.run}
	now := time.Now()
	switch {
	case past != nil && !asked: // another question's run brought a new catalog
		next.wait, next.until = past.wait, past.until
	case past != nil && now.Before(past.until.Add(maxRediscovery)):
		next.wait = min(2*past.wait, maxRediscovery)
		next.until = now.Add(next.wait)
	default:
		next.wait = minRediscovery
		next.until = now.Add(next.wait)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.misses) >= maxMisses {
		// Whoever asks so many different questions loses their back-off; the
		// least time between runs still holds.
		clear(m.misses)
	}
	m.misses[q] = next
	return next.err
}

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

// Get is what discovery needs of a client: one GET of an absolute path, with an
// Accept header. It may be called by several goroutines at a time.
type Get func(ctx context.Context, path, accept string) (body []byte, contentType string, err error)
