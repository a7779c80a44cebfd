package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
)

// The kinds of [Difference].
const (
	kindMissing = "missing" // the object is only on the server
	kindGhost   = "ghost"   // the object is only in the cache
	kindVersion = "version" // the cache contains a different version of the object
	kindUID     = "uid"     // the cache contains a different object with the same name
)

// Difference describes an object whose cached state differs from the server's.
type Difference struct {
	Kind   string
	Key    object.Key
	Cached version `json:",omitzero"`
	Served version `json:",omitzero"`
}

// String returns the difference as a line of text.
func (d *Difference) String() string {
	var text string
	switch d.Kind {
	case kindMissing:
		text = fmt.Sprintf("not in the cache; the server has version %s", d.Served.RV)
	case kindGhost:
		text = fmt.Sprintf("in the cache with version %s; not on the server", d.Cached.RV)
	case kindVersion:
		text = fmt.Sprintf("version %s in the cache, %s on the server", d.Cached.RV, d.Served.RV)
	case kindUID:
		text = fmt.Sprintf("UID %s in the cache, %s on the server: it was deleted and created again", d.Cached.UID, d.Served.UID)
	}
	return fmt.Sprintf("%-8s %s  %s", d.Kind, object.FormatKey(d.Key), text)
}

// cached is a cache's contents, complete up to version rv.
type cached struct {
	rv      string
	synced  bool
	share   bool // it may lack objects that belong to other replicas
	objects map[object.Key]version
}

// comparison compares one informer's cache with lists from the server.
//
// Let L be a list's version. If the cache is complete up to L but differs from the list, and the cached state
// is not newer than L, then the cache is wrong. There is one exception: an object missing from the cache may
// have been deleted, or have stopped matching the selector, after L. So the server is asked again for the
// objects that differ:
//
//  1. If an object has not changed since the list, the difference is real: the cache should have that state.
//  2. Otherwise it has changed since. The second read replaces the list for these keys. Any remaining
//     difference is real, unless the object is missing from the cache and now has a different UID: then it
//     was deleted in between, and the cache is right.
type comparison struct {
	process   *debug.Client
	which     debug.Which
	namespace string // of the objects; empty for all
	parts     []part
	console   *terminal.Console // for progress messages

	status debug.Informer // as last seen
	at     time.Time      // time of status, according to the process's clock
	since  time.Time      // start of the comparison
	told   bool           // whether the wait was reported
}

// pollEvery is how often the process is polled for progress.
const pollEvery = 200 * time.Millisecond

// Result is the result of a comparison.
type Result struct {
	Informer    string
	Cluster     string         `json:",omitzero"`
	Objects     int            // on the server; with Share, only those that are also in the cache
	RV          string         // of the list
	Differing   map[string]int // number per kind
	Differences []Difference   // the first few

	// Share means that the cache holds a replica's share of the objects, so missing objects are not recognized.
	Share bool `json:",omitzero"`

	// Relabelled lists objects that have the same version as on the server but different labels in the cache.
	Relabelled []object.Key `json:",omitzero"`

	// Unsure explains why the differences may be temporary, if time ran out. It is empty if they are real.
	Unsure string `json:",omitzero"`

	// Undelivered is how long ago the server made the changes, if the watch has received nothing since.
	Undelivered time.Duration `json:",omitzero"`

	// Doubt is the reason to suspect that the server and the process belong to different clusters, or empty
	// if there is none.
	Doubt string `json:",omitzero"`
}

// run compares. If ctx is done before the result is certain, it returns the preliminary result, with
// Unsure set, and exit.ErrTimedOut.
func (c *comparison) run(ctx context.Context) (*Result, error) {
	c.since = time.Now()
	before, err := c.cached(ctx)
	if err != nil {
		return nil, err
	}
	list, err := read(ctx, c.parts, nil)
	if err != nil {
		return nil, err
	}
	result := &Result{Informer: c.which.Informer, Cluster: c.which.Cluster, Objects: len(list.objects), RV: list.rv, Share: before.share}
	result.Doubt = doubt(before, list)
	both := 0
	for key, has := range before.objects {
		is, ok := list.objects[key]
		if ok {
			both++
		}
		if ok && has.same(is) && has.labels != is.labels {
			result.Relabelled = append(result.Relabelled, key)
		}
	}
	if result.Share {
		result.Objects = both
	}
	slices.SortFunc(result.Relabelled, compareKeys)
	first := list
	defer func() { // objects created after the first list are on the server, too
		for _, d := range result.Differences {
			if _, known := first.objects[d.Key]; !known && d.Kind != kindGhost {
				result.Objects++
			}
		}
	}()
	var kinds map[object.Key]string // differences from the previous round
	for {
		suspects, err := c.suspects(ctx, list)
		if err != nil {
			result.Differences, result.Unsure = append(result.Differences, suspects...), c.behind(list)
			waited := time.Since(list.at)
			delivered := func(d Difference) bool { return c.status.In(d.Key.Namespace).Silence(c.at) < waited }
			if c.status.QueueDepth == 0 && !slices.ContainsFunc(suspects, delivered) {
				result.Undelivered = waited
			}
			return result, err
		}
		if len(suspects) == 0 {
			break
		}
		keys := map[object.Key]bool{}
		for _, d := range suspects {
			keys[d.Key] = true
		}
		now, err := read(ctx, c.parts, keys)
		if err != nil {
			return nil, err
		}
		again := map[object.Key]string{}
		for _, d := range suspects {
			was, had := list.objects[d.Key]
			is, has := now.objects[d.Key]
			still := kinds[d.Key] == d.Kind && (d.Kind != kindMissing || was.UID == is.UID)
			if had == has && was.same(is) || still {
				result.Differences = append(result.Differences, d)
				delete(now.only, d.Key)
				delete(now.objects, d.Key)
			} else {
				again[d.Key] = d.Kind
			}
		}
		list, kinds = now, again
	}
	slices.SortFunc(result.Differences, func(a, b Difference) int { return compareKeys(a.Key, b.Key) })
	return result, nil
}

func compareKeys(a, b object.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// suspects waits until the cache is complete up to the list and returns the differences. If there are none
// now, it does not wait, because objects with the same version are equal.
func (c *comparison) suspects(ctx context.Context, list *served) (found []Difference, err error) {
	for {
		cache, err := c.cached(ctx)
		if err != nil {
			return found, err
		}
		if found = differences(cache, list); len(found) == 0 || cache.synced && object.ReachedRV(cache.rv, list.rv) {
			return found, nil
		}
		if err := c.moved(ctx, cache, func() { c.late(found, list) }); err != nil {
			return found, err
		}
	}
}

// late reports, once, what the comparison is waiting for if the wait is long.
func (c *comparison) late(differing []Difference, list *served) {
	if c.told || time.Since(c.since) < terminal.LateAfter {
		return
	}
	c.told = true
	c.console.State(time.Now(), "%-12s  %s: %d of %d objects differ, which may be temporary: %s", "waiting", c.which.Informer, len(differing), len(list.objects)+counts(differing)[kindGhost], c.behind(list))
}

// moved waits until the cache has advanced, polling with look.
func (c *comparison) moved(ctx context.Context, from *cached, look func()) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		status, err := c.process.Status(ctx)
		if err != nil {
			return err
		}
		c.at = status.At
		n := slices.IndexFunc(status.Informers, func(i debug.Informer) bool { return c.which == i.Which() })
		if n < 0 {
			return fmt.Errorf("the process no longer has an informer %s", c.which.Informer)
		}
		if c.status = status.Informers[n]; c.status.RV != from.rv || c.status.Synced != from.synced {
			return nil
		}
		look()
	}
}

// behind explains why the cache is not complete up to the list.
func (c *comparison) behind(list *served) string {
	s := &c.status
	trouble := s.Trouble(time.Now())
	text := fmt.Sprintf("the cache is complete up to version %s, but the server's list has version %s", terminal.OrDash(s.RV), list.rv)
	switch {
	case !s.Synced:
		text = "the informer has no complete initial list: " + s.Reflector.Missing().Error()
	case s.Reflector.Attempts > 0:
		text += ": " + s.Reflector.Missing().Error()
	case trouble != "":
		text += ": " + trouble
	case s.Reflector.State == reflector.Watching:
		text += ": no bookmark has been received yet; servers send one about once a minute"
	}
	return text
}

// differences compares a cache with a list, ignoring objects newer than the list. An object that a share lacks is not
// a difference, since it may belong to another replica.
func differences(c *cached, s *served) (found []Difference) {
	for key, is := range s.objects {
		has, ok := c.objects[key]
		switch {
		case !ok && c.share:
		case !ok:
			found = append(found, Difference{Kind: kindMissing, Key: key, Served: is})
		case has.same(is), sight.Newer(has.RV, s.rv):
		case has.UID != is.UID:
			found = append(found, Difference{Kind: kindUID, Key: key, Cached: has, Served: is})
		default:
			found = append(found, Difference{Kind: kindVersion, Key: key, Cached: has, Served: is})
		}
	}
	for key, has := range c.objects {
		if _, ok := s.objects[key]; !ok && s.covers(key) && !sight.Newer(has.RV, s.rv) {
			found = append(found, Difference{Kind: kindGhost, Key: key, Cached: has})
		}
	}
	return found
}

// doubt returns the reason to suspect that the cache, which was read before the list, belongs to another
// cluster. It returns "" if there is none.
func doubt(c *cached, s *served) string {
	alike := 0
	for key, has := range c.objects {
		if s.objects[key].UID == has.UID {
			alike++
		}
	}
	switch {
	case sight.Newer(c.rv, s.rv):
		return fmt.Sprintf("the cache was at version %s while the server was at %s", c.rv, s.rv)
	case len(c.objects) > 0 && len(s.objects) > 0 && alike == 0:
		return "no object has the same UID in the cache and on the server"
	}
	return ""
}

// cached reads the keys and versions in the cache. Each page is at least as recent as the first one.
func (c *comparison) cached(ctx context.Context) (*cached, error) {
	all := &cached{share: c.status.Selection != shard.SelectionNone, objects: map[object.Key]version{}}
	page := debug.Page{Namespace: c.namespace, Limit: 1000}
	for first := true; ; first = false {
		objects, err := c.process.Objects(ctx, c.which, page)
		if err != nil {
			return nil, err
		}
		if first {
			all.rv, all.synced = objects.RV, objects.Synced
		}
		for n := range objects.Heads {
			h := &objects.Heads[n]
			all.objects[object.Key{Namespace: h.Namespace, Name: h.Name}] = version{h.UID, h.RV, labels.FormatLabels(h.Labels)}
		}
		if page.Continue = objects.Continue; page.Continue == "" {
			return all, nil
		}
	}
}

// Informer compares an informer's cache with the server at, and prints to console what it is waiting for. If
// ctx is done before the result is certain, it returns the preliminary result, with Unsure set, and the cause
// of ctx.
func Informer(ctx context.Context, v *sight.Sight, at cluster.Target, i *debug.Informer, console *terminal.Console) (*Result, error) {
	scopes, err := sight.Scopes(i)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	c := &comparison{process: v.Process, which: i.Which(), status: *i, console: console}
	if c.parts, err = partsOf(ctx, v, at, scopes, console); err != nil {
		return nil, err
	}
	if v.Flags.To != "" && len(c.parts) > 0 {
		c.namespace = c.parts[0].Namespace
	}
	if len(c.parts) > 1 {
		c.namespace = ""
	}
	result, err := c.run(ctx)
	switch failed, ofList := errors.AsType[*listError](err); {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return result, context.Cause(ctx)
	case ofList:
		return nil, at.Unavailable(failed, failed.err)
	}
	return nil, v.Unanswered(ctx, err)
}

// counts returns the number of differences per kind.
func counts(all []Difference) map[string]int {
	kinds := map[string]int{}
	for _, d := range all {
		kinds[d.Kind]++
	}
	return kinds
}

// Count sets Differing.
func (r *Result) Count() { r.Differing = counts(r.Differences) }

// Sentence summarizes the result.
func (r *Result) Sentence() string {
	all, share := r.Differences, ""
	if r.Share {
		share = "; the cache holds a replica's share of the objects, so missing ones are not recognized"
	}
	if len(all) == 0 && r.Unsure == "" {
		return fmt.Sprintf("%s: %d objects equal at version %s%s", r.Informer, r.Objects, r.RV, share)
	}
	var parts []string
	kinds := counts(all)
	for _, kind := range []string{kindMissing, kindGhost, kindVersion, kindUID} {
		if kinds[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
	}
	text := fmt.Sprintf("%s: %d of %d objects differ at version %s (%s)", r.Informer, len(all), r.Objects+kinds[kindGhost], r.RV, strings.Join(parts, ", "))
	if r.Unsure != "" {
		text += ", which may be temporary: " + r.Unsure
	}
	return text + share
}
