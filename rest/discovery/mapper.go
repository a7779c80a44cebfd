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
	// minRediscovery is the minimum time between the end of one run and the start of the
	// next, and therefore the maximum time that a lookup waits before its run starts. One or two requests
	// per second are negligible for a server.
	minRediscovery = time.Second

	// maxRediscovery limits how long a failed lookup is answered from memory before the server is asked
	// again. Apart from the caller's own back-off, this is the longest that it takes for repeated lookups to
	// find a new CRD.
	maxRediscovery = 10 * time.Second

	// maxRun limits the duration of a run. Servers normally respond within a second, and one unanswered
	// request must not hold up all callers.
	maxRun = 30 * time.Second

	// maxMisses limits the number of failed lookups for which the back-off is remembered.
	maxMisses = 1024
)

// Mapper determines where kinds are served. It asks the server on first use, and again for anything it does
// not know, so it also finds CRDs that are installed later.
//
// A lookup works as follows:
//
//  1. If the Mapper knows the answer, it returns it immediately, without a request.
//  2. Otherwise one caller asks the server again, and concurrent lookups share that run. A run starts at
//     least a second after the previous one ended, so callers may have to wait that long.
//  3. If the new run does not find it either, the result is a [*NoMatchError]. If the same lookup is
//     repeated, it returns this error immediately for one second before the server is asked again, then for
//     two, four, and up to 10 seconds. The back-off is reset if the lookup is not repeated within another
//     10 seconds.
//
// A run takes at most 30 seconds; requests still pending by then fail. If a run fails completely, earlier
// results remain valid. Lookups that needed the run return the reason, and for the next second other lookups
// do so too, without a request. If only some groups fail, the run is considered successful and the earlier
// results for those groups are kept; see [Error].
//
// If the server rejects a document request with a Retry-After, the Mapper does not repeat the request until
// that time (at most source.MaxRetryAfter) has passed; until then it returns the same error.
//
// Lookups still find a CRD's kind after the CRD has been removed. If the server responds with 404 for a
// whole resource, call [Mapper.Invalidate].
//
// All methods are safe for concurrent use. The slices in a Mapping are shared and must not
// be modified. A Mapper starts no goroutines that outlive a call: discovery runs under the
// context of the caller that started it. If that context is canceled, the next waiting
// caller starts a new run.
type Mapper struct {
	get Get // honors Retry-After
	log *slog.Logger

	// turn contains a token. A goroutine holds the token while it decides whether to run discovery, waits
	// until it may, and runs it. Acquire it before mu, never while holding mu.
	turn chan struct{}

	mu sync.Mutex // guards the fields below; held only briefly, and never while calling other code
	// catalog contains the current results; nil before the first successful run.
	catalog *catalog
	// stale is set from Invalidate until the next run, and means that lookups must not use catalog.
	stale bool
	// epoch counts the calls to Invalidate. A run that started in an earlier epoch does not answer
	// lookups in the current one.
	epoch uint64
	// runs counts completed runs, successful or not. ended is when the last one completed, and failure is
	// its error if it failed completely.
	runs    uint64
	ended   time.Time
	failure error
	// misses contains the back-off state of failed lookups.
	misses map[question]*miss
}

// miss is a lookup that the last run could not answer.
type miss struct {
	err   error
	run   uint64        // the run whose catalog produced err
	wait  time.Duration // the back-off, doubled each time
	until time.Time     // when the server may be asked again
}

// question is what a lookup asks for: a kind or a partial resource, whichever is not empty.
type question struct {
	kind     object.GVK
	resource object.GVR
}

// NewMapper returns an empty Mapper. A nil logger means no logging.
func NewMapper(get Get, logger *slog.Logger) *Mapper {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Mapper{get: new(refusals).heed(get), log: logger, turn: make(chan struct{}, 1), misses: make(map[question]*miss)}
}

// MappingForKind returns the location of gvk. Group and kind must match exactly, and the empty group is the
// core group. An empty version means the server's preferred version of the kind.
//
// It fails with a [*NoMatchError] if the server does not serve the kind, with an [*AmbiguousError] if two
// resources match, with ctx's error, or with the reason why discovery failed.
func (m *Mapper) MappingForKind(ctx context.Context, gvk object.GVK) (Mapping, error) {
	return m.one(ctx, question{kind: gvk})
}

// MappingForResource returns the resource that gvr refers to, interpreted as in kubectl: a plural, a
// singular, a short name or a kind, in upper or lower case. The group may be empty, meaning any group, or a
// prefix of a group's name. The version may be empty. If several resources match, a plural takes precedence
// over a short name, a short name over a singular, and a singular over a kind. After that, the core group
// takes precedence, then the other groups in the server's order, preferred versions first.
//
// It fails with a [*NoMatchError] if the server does not serve the resource, with an
// [*AmbiguousError] if two resources in one group version match equally well, with ctx's
// error, or with the reason why discovery failed.
func (m *Mapper) MappingForResource(ctx context.Context, gvr object.GVR) (Mapping, error) {
	return m.one(ctx, question{resource: gvr})
}

// Mappings returns everything that the server serves: the core group first, then the other groups in the
// server's order, each with its preferred version first. It asks the server only if there has been no
// successful run yet, or after Invalidate.
//
// If the error is an [*Error], it lists the parts that could not be discovered, and Mappings returns the
// rest. With any other error, no mappings are returned.
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

// Known returns the location of gvk according to the last run, even after Invalidate, or false if that run
// did not find it. It sends no request and does not block.
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

// Invalidate makes the next lookup ask the server again, for example after a 404 for a
// resource that used to exist. Calls within a second share one run. Mappings returned
// earlier do not change.
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

// find returns the mappings, at least one, that q may refer to, in order of preference. It asks the server if
// necessary.
func (m *Mapper) find(ctx context.Context, q question) ([]*Mapping, error) {
	if q.kind.Kind == "" && q.resource.Resource == "" {
		return nil, errors.New("look up a mapping: no kind or resource given")
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

// known returns the results that lookups may currently use, or nil if there are none, and the number of
// runs completed so far.
func (m *Mapper) known() (known *catalog, asked uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stale {
		return nil, m.runs
	}
	return m.catalog, m.runs
}

// learn returns the results of a run that completed after the lookup began, whether its own or another
// caller's.
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
	// With a wait of zero, select might choose the timer although ctx is already done.
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

// learned returns the results of a run that completed since the lookup began, or how long to wait before
// another run may start. A failed run's error is also returned for lookups that begin shortly afterwards.
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

// run asks the server and installs the results. The caller holds the turn. If a run is canceled by its
// context, the next caller that gets the turn starts a new one.
func (m *Mapper) run(ctx context.Context) (*catalog, error) {
	m.mu.Lock()
	earlier, epoch, number := m.catalog, m.epoch, m.runs+1 // no concurrent run while holding the turn
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

// finish records the outcome of a run that started in the given epoch: a catalog or an error.
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

// logRun logs a completed run, and warns of undiscovered parts if they have changed.
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

// backingOff reports whether q failed recently and may not be looked up again yet.
func (m *Mapper) backingOff(q question) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	past := m.misses[q]
	return past != nil && time.Now().Before(past.until)
}

// missed returns the error for a lookup that known cannot answer. If the server was asked for it, missed
// increases q's back-off, but only once per run, even if several callers share the run.
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
	case past != nil && !asked: // another lookup triggered this run
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
		// With this many different lookups, forget the back-off; the minimum time between runs still
		// applies.
		clear(m.misses)
	}
	m.misses[q] = next
	return next.err
}

// Mapping describes a resource and its location.
type Mapping struct {
	Kind       object.GVK
	Resource   object.GVR
	Namespaced bool
	Singular   string
	ShortNames []string
	Categories []string
	Verbs      []string // verbs on the resource itself, such as "list" and "watch"

	// Subresources are an object's subresources, such as "status" and "scale".
	Subresources []string
}

// Get is the request function for discovery: it sends one GET for an absolute path with an Accept header. It
// must be safe for concurrent use.
type Get func(ctx context.Context, path, accept string) (body []byte, contentType string, err error)
