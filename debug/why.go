package debug

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// Why explains why an object has not been reconciled, or was reconciled late.
type Why struct {
	Key     object.Key // the requested key; a missing namespace is filled in from the caches
	Reasons []Reason   // most relevant first; never empty
	Cached  []Which    // informers that contain the object
	Unowned []Sharing  // sharded informers that cannot determine whether they own the object
	Entries []flight.Entry
}

// Reason is one reason for the delay.
type Reason struct {
	Cause Cause
	Text  string // one or more complete sentences, with names and times

	controller bool // reported by a controller
	aside      bool // reported by a controller whose sources watch other objects
}

// Cause classifies a [Reason].
type Cause string

// The possible causes, in the order of the stages a change passes through.
const (
	NoInformer   Cause = "no informer"       // no informer caches such objects
	Unsynced     Cause = "unsynced"          // the initial list is not complete
	WatchFails   Cause = "watch fails"       // changes do not arrive
	WatchSilent  Cause = "watch silent"      // no events for so long that the watch may be dead
	NotCached    Cause = "not cached"        // no cache has the object
	Queued       Cause = "queued"            // changes are queued for the cache
	HandlerLags  Cause = "handler lags"      // changes are queued for a handler
	NotLeading   Cause = "not leading"       // another replica is the leader
	Elsewhere    Cause = "owned elsewhere"   // another replica owns the object
	HandedOver   Cause = "being handed over" // between two replicas
	Unowned      Cause = "owned by nobody"   // or by an unknown replica
	Owned        Cause = "owned"             // this replica owns it
	NotRunning   Cause = "not running"       // the controller is not running, or not yet
	Running      Cause = "running"           // being reconciled
	Waiting      Cause = "waiting"           // waiting for a worker
	ParkedForRV  Cause = "parked"            // waiting for the cache to see the controller's last write
	BackingOff   Cause = "backing off"       // failed and will be retried
	Scheduled    Cause = "scheduled"         // will be reconciled again later, as requested by the reconciler
	NotAsked     Cause = "not asked"         // a change was delivered, but did not cause a source to request a reconcile
	Reconciled   Cause = "reconciled"        // reconciled and unchanged since
	NoController Cause = "no controller"     // there are no controllers
	Unknown      Cause = "unknown"           // nothing is known about the object
)

// why answers a query for one key.
func (p *Process) why(q query) (*Why, error) {
	key := object.Key{Namespace: q.get("namespace"), Name: q.get("name")}
	if key.Name == "" {
		return nil, refuse(http.StatusBadRequest, "Specify the object: name, and namespace if it has one.")
	}
	all := p.informers()
	key, err := located(all, q.get("informer"), key)
	if err != nil {
		return nil, err
	}
	line := p.opts.Recorder.Or().Timeline(recorded(all, q.get("informer")), key)
	i := inquiry{key: key, name: object.FormatKey(key), line: line, now: time.Now(), informer: q.get("informer")}
	if p.opts.Election != nil {
		switch e := p.opts.Election(); {
		case e == nil || e.Leading:
		case e.Attempts > 0 && e.Failure != nil:
			i.say(NotLeading, "This replica (%s) is not the leader, and cannot read or renew the lease %s: %v.", e.Identity, object.FormatKey(e.Lease), e.Failure)
		default:
			i.say(NotLeading, "This replica (%s) is not the leader; %s is (lease %s).", e.Identity, cmp.Or(e.Holder, "no replica"), object.FormatKey(e.Lease))
		}
	}
	unowned := i.owners(all, p.opts.memberships(), q.get("hash"))
	i.caches(all)
	wanted, any := q.get("controller"), false // any is true once a controller was found
	for _, c := range p.opts.controllers() {
		if wanted == "" || wanted == c.Name() {
			any, i.asking = true, true
			i.controller(c)
		}
	}
	if !any && wanted != "" {
		return nil, refuse(http.StatusNotFound, "There is no controller named %s.", clipped(wanted))
	}
	if !any {
		i.say(NoController, "This process exposes no controllers, so apparently nothing is reconciled.")
	}
	i.order(wanted != "")
	return &Why{Key: key, Reasons: i.reasons, Cached: i.holders, Unowned: unowned, Entries: line[max(0, len(line)-mostItems):]}, nil
}

// located fills in a missing namespace if the caches contain exactly one object of that name.
func located(all []one, informer string, key object.Key) (object.Key, error) {
	if key.Namespace != "" {
		return key, nil
	}
	found := map[string]bool{}
	for _, each := range all {
		if each.view == nil || !means(informer, each) {
			continue
		}
		heads := each.view.Heads()
		if _, ok := heads.Get(key); ok {
			return key, nil
		}
		for head := range heads.All() {
			if head.GetName() == key.Name {
				found[head.GetNamespace()] = true
			}
		}
	}
	switch namespaces := slices.Sorted(maps.Keys(found)); len(namespaces) {
	case 0:
		return key, nil
	case 1:
		return object.Key{Namespace: namespaces[0], Name: key.Name}, nil
	default:
		return key, refuse(http.StatusConflict, "%s is in several namespaces: %s. Specify one.", clipped(key.Name), enumerated(namespaces, ", "))
	}
}

// recorded converts an informer's description to the name used in the flight recorder.
func recorded(all []one, text string) string {
	for _, each := range all {
		if text == describe(each) {
			return each.status.Reflector.Resource
		}
	}
	return text
}

// rank orders causes by how well they explain a delay: current obstacles first, in the order in which a
// change runs into them, then mere facts.
func rank(c Cause) int {
	return slices.Index([]Cause{
		NotLeading, HandedOver, Elsewhere, Unowned, NotRunning, Unsynced, WatchFails, WatchSilent, Running, ParkedForRV, BackingOff, Waiting, Queued, HandlerLags,
		NotCached, NotAsked, Scheduled, Reconciled, Owned, NoInformer, NoController, Unknown,
	}, c)
}

// order sorts the reasons. If byName is set, it keeps all of them. Otherwise it drops reports from
// controllers for other objects that are not running or know nothing about the key, if other reasons remain.
// If any controller knows the key, it also drops reports from controllers that do not, and moves those from
// controllers that are not running to the end, because they may be for other objects. If one holds a request for the
// key, it runs without the lease, so a missing lease is not what delays the object.
func (i *inquiry) order(byName bool) {
	ignorant := func(r Reason) bool { return r.Cause == Unknown || r.Cause == NotAsked }
	knows := func(r Reason) bool { return r.controller && !ignorant(r) && r.Cause != NotRunning }
	holds := func(r Reason) bool {
		return r.controller && !r.aside && slices.Contains([]Cause{Running, ParkedForRV, BackingOff, Waiting, Scheduled}, r.Cause)
	}
	aside := func(r Reason) bool { return r.aside && (ignorant(r) || r.Cause == NotRunning) }
	if !byName && slices.ContainsFunc(i.reasons, func(r Reason) bool { return !aside(r) }) {
		i.reasons = slices.DeleteFunc(i.reasons, aside)
	}
	known := !byName && slices.ContainsFunc(i.reasons, knows)
	if known {
		i.reasons = slices.DeleteFunc(i.reasons, ignorant)
	}
	held := slices.ContainsFunc(i.reasons, holds)
	place := func(r Reason) int {
		if known && r.Cause == NotRunning || held && r.Cause == NotLeading {
			return rank(Unknown)
		}
		return rank(r.Cause)
	}
	slices.SortStableFunc(i.reasons, func(a, b Reason) int { return place(a) - place(b) })
}

// longCall is how long a call must have been running for its stack to be reported.
const longCall = 5 * time.Second

// inquiry collects reasons for one key.
type inquiry struct {
	key      object.Key
	name     string // the key as text
	informer string // requested informer; empty for any
	line     []flight.Entry
	now      time.Time
	all      []one           // all informers
	shown    map[string]bool // names of all informers
	meant    map[string]bool // names of the informers that contain or may contain the object
	asking   bool            // currently adding reasons for a controller
	aside    bool            // that controller is for other objects
	holders  []Which         // informers that contain the object
	reasons  []Reason

	cluster   string // the cluster of the meant informers
	clustered bool   // they all belong to it
	exact     bool   // the current controller has requests with that name

	goroutines []group // nil until whereIs is called
}

func (i *inquiry) say(c Cause, format string, args ...any) {
	i.reasons = append(i.reasons, Reason{c, fmt.Sprintf(format, args...), i.asking, i.aside})
}

// caches looks for obstacles between the server and the handlers. It checks the informers that contain
// the object or, if there are none, all selected informers.
func (i *inquiry) caches(all []one) {
	i.all, i.shown = all, namesOf(all)
	var meant, holders []one
	for _, each := range all {
		if !means(i.informer, each) {
			continue
		}
		meant = append(meant, each)
		if each.view == nil {
			continue
		}
		if _, ok := each.view.Heads().Get(i.key); ok {
			holders, i.holders = append(holders, each), append(i.holders, (&Informer{each.cluster, each.status}).Which())
			i.delivered(each, time.Second)
		}
	}
	switch {
	case len(all) == 0:
		i.say(NoInformer, "This process exposes no informers.")
	case len(meant) == 0:
		i.say(NoInformer, "This process has no informer named %s.", clipped(i.informer))
	case len(holders) == 0:
		i.missing(meant)
	default:
		meant = holders
	}
	i.meant = namesOf(meant)
	other := func(of one) bool { return of.cluster != meant[0].cluster }
	if i.clustered = len(meant) > 0 && !slices.ContainsFunc(meant, other); i.clustered {
		i.cluster = meant[0].cluster
	}
	if able := slices.DeleteFunc(slices.Clone(meant), i.elsewhere); len(able) > 0 {
		meant = able
	}
	i.arriving(meant)
}

// elsewhere reports whether an informer only covers a different namespace.
func (i *inquiry) elsewhere(of one) bool {
	namespace := namespaceOf(of.status.Reflector.Resource)
	return i.key.Namespace != "" && namespace != "" && namespace != i.key.Namespace
}

// namespaceOf returns the namespace in an informer's name, or "" if it covers all namespaces.
func namespaceOf(resource string) string {
	_, namespace, _ := strings.Cut(resource, " in namespace ")
	namespace, _, _ = strings.Cut(namespace, " ")
	return namespace
}

// gone reports the object's last recorded deletion, and handlers that may not have received it.
func (i *inquiry) gone(meant []one) bool {
	for n := len(i.line) - 1; n >= 0; n-- {
		e := &i.line[n]
		if e.Kind != flight.Applied || e.Change != sharedinformer.Delete.String() || e.Key != i.key {
			continue
		}
		for _, each := range meant {
			if e.Name == each.status.Reflector.Resource && !i.namesake(each) {
				i.delivered(each, i.now.Sub(e.At)-time.Second) // a handler that has not been told yet
				i.say(NotCached, "%s is no longer in any cache: it was removed from %s %s ago, at version %s. It was deleted, or the informer's namespaces and selectors no longer include it.", i.name, describe(each), age(i.now, e.At), e.RV)
				return true
			}
		}
	}
	return false
}

// missing reports the synced informers that do not contain the object.
func (i *inquiry) missing(meant []one) {
	if i.gone(meant) {
		return
	}
	var complete []string
	for _, each := range meant {
		if s := each.status; s.Synced && each.view != nil {
			complete = append(complete, fmt.Sprintf("%s (%d objects, complete up to version %s%s)", describe(each), s.Objects, s.RV, namespacesOf(s)))
		}
	}
	const most = 10
	if more := len(complete) - most; more > 0 {
		complete = append(complete[:most], fmt.Sprintf("%d more", more))
	}
	if len(complete) > 0 {
		i.say(NotCached, "%s is in no cache: not in %s. Either the object does not exist, or no informer's namespaces and selectors include it.", i.name, strings.Join(complete, ", nor in "))
	}
}

// namespacesOf lists the namespaces of an informer that watches several namespaces individually.
func namespacesOf(s sharedinformer.Status) string {
	if len(s.Namespaces) < 2 {
		return ""
	}
	const most = 10
	var names []string
	for _, each := range s.Namespaces {
		if namespace := namespaceOf(each.Resource); namespace != "" && len(names) < most {
			names = append(names, namespace)
		}
	}
	if more := len(s.Namespaces) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return ", namespaces " + strings.Join(names, ", ")
}

// arriving reports whether changes reach the caches.
func (i *inquiry) arriving(meant []one) {
	const most = 10 // maximum number of unsynced resources to list
	unsynced := 0
	for _, of := range meant {
		of.status = (&Informer{of.cluster, of.status}).In(i.key.Namespace).Status
		for _, missing := range of.status.Unsynced() {
			if unsynced++; unsynced <= most {
				name := missing.Resource
				if of.cluster != "" {
					name += " of cluster " + of.cluster
				}
				switch leaving := of.status.Leaving; {
				case leaving != "" && missing.RV != "":
					i.say(Unsynced, "The informer for %s syncs once the source has returned from %s.", name, leaving)
				case leaving != "" && missing.State == reflector.Idle:
					i.say(Unsynced, "The informer for %s has no initial list yet: it starts once the source has returned from %s.", name, leaving)
				default:
					i.say(Unsynced, "The informer for %s has no initial list yet: it has been %s for %s%s.", name, missing.State, age(i.now, missing.Since), because(missing))
				}
			}
		}
		i.late(of)
	}
	if more := unsynced - most; more > 0 {
		i.say(Unsynced, "%d more have no initial list yet.", more)
	}
}

// late reports obstacles that delay changes in a synced informer.
func (i *inquiry) late(of one) {
	s, name := of.status, describe(of)
	switch r := s.Reflector; {
	case s.Synced && r.Polling && r.Failure != nil:
		i.say(WatchFails, "Changes to %s arrive late, by polling, because watches fail: %s. The cache is at version %s, %s old.", name, failure.Reason(r.Failure.Err), s.RV, short(r.Age(i.now)))
	case s.Synced && (r.Attempts > 0 || r.Held()):
		i.say(WatchFails, "Changes to %s are not arriving: %s%s. The cache is at version %s%s.", name, r.State, because(r), s.RV, old(r, i.now))
	case s.Synced && r.State == reflector.Stopped:
		i.say(WatchFails, "Changes to %s are not arriving: %s. The cache is at version %s%s.", name, stopped(&r, i.now), s.RV, old(r, i.now))
	}
	if silence := silent(&s, i.now); s.Synced && s.Reflector.Attempts == 0 && silence != "" {
		i.say(WatchSilent, "The informer for %s is silent: %s. The cache is at version %s; informer-debug check compares it with the server.", name, silence, s.RV)
	}
	if s.QueueDepth > 0 && s.QueueAge > time.Second {
		i.say(Queued, "%d changes to %s are queued for the cache, the oldest for %s: %s.", s.QueueDepth, name, short(s.QueueAge), cmp.Or(s.Blocked, "an index function or the machine is slow"))
	}
}

// old describes the age of a reflector's state. It returns "" if the age is unknown.
func old(r reflector.Status, now time.Time) string {
	if r.Age(now) == 0 {
		return ""
	}
	return ", " + short(r.Age(now)) + " old"
}

func because(s reflector.Status) string {
	switch {
	case s.Waiting != "":
		return ": " + s.Waiting
	case s.Attempts > 0 && s.Failure != nil:
		return fmt.Sprintf(": %s (%s in %s)", failure.Reason(s.Failure.Err), times(s.Attempts), age(time.Now(), s.Failure.Since))
	}
	return ""
}

// delivered reports handlers that are behind by more than the given time, and by more than a second.
func (i *inquiry) delivered(of one, by time.Duration) {
	for _, h := range of.status.Handlers {
		if h.Behind > max(by, time.Second) {
			text := fmt.Sprintf("The handler %s of %s is %s behind, with %d pending events; %s.", handlerName(h), describe(of), short(h.Behind), h.Pending, i.busyWith(h))
			if h.Busy >= longCall {
				text += fmt.Sprintf(" Its call for %s has taken %s so far.", object.FormatKey(h.Key), short(h.Busy)) + i.whereIs(h.Name, of.status.Reflector.Resource)
			}
			i.say(HandlerLags, "%s", text)
		}
	}
}

func handlerName(h sharedinformer.HandlerStatus) string {
	if h.Name == h.Place || h.Place == "" {
		return h.Name
	}
	return h.Name + " (" + h.Place + ")"
}

func (i *inquiry) busyWith(h sharedinformer.HandlerStatus) string {
	if h.Failure != nil && h.Panics+h.Errors > 0 {
		return fmt.Sprintf("its longest call took %s, and its last failure was: %s", short(h.Slowest), failure.Reason(h.Failure.Err))
	}
	return "its longest call has taken " + short(h.Slowest)
}

// controller reports the state of the request in a controller.
func (i *inquiry) controller(c controller.View) {
	s := c.Status()
	narrower := i.narrower(s.Sources)
	i.aside = narrower == "" && !i.concerns(s.Sources)
	defer func() { i.aside = false }()
	if s.State != controller.Running {
		text := fmt.Sprintf("The controller %s has been %s for %s%s", c.Name(), s.State, age(i.now, s.Since), unsyncedOf(s.Sources))
		i.say(NotRunning, "%s.", strings.TrimSuffix(text, "."))
		return
	}
	contents := c.Contents(mostItems)
	i.findExact(c, contents)
	if i.parked(c, contents) || i.held(c, s, contents) {
		return
	}
	if len(contents.Waiting) == mostItems || len(contents.Delayed) == mostItems || len(contents.Parked) == mostItems {
		if i.crowded(c, s) {
			return
		}
	}
	if i.early(c, s) {
		return
	}
	if narrower != "" && !i.concerns(s.Sources) && i.last(c, flight.Done) == nil {
		i.say(NotCached, "The controller %s has no request for %s: the namespaces and selectors of its source %s do not include it. Another informer does.", c.Name(), i.name, narrower)
		return
	}
	i.past(c)
}

// unsyncedOf lists the unsynced sources and why they are not synced.
func unsyncedOf(sources []controller.SourceStatus) (text string) {
	for _, source := range sources {
		if !source.Synced && source.Waiting != nil {
			text += fmt.Sprintf(": %s is not synced: %v", source.Name, source.Waiting)
		}
	}
	return text
}

// early reports a request that a running controller holds back because its namespace has not synced. Such a
// request is not in the queue, but according to the flight recorder no worker has started it.
func (i *inquiry) early(c controller.View, s controller.Status) bool {
	sources := slices.Clone(s.Sources)
	for n := range sources {
		if !sources[n].Optional { // it may have got another namespace since it synced
			sources[n].Synced = false
		}
	}
	why, asked, taken := unsyncedOf(sources), i.last(c, flight.Asked), i.last(c, flight.Taken)
	if why == "" || asked == nil || taken != nil && !taken.At.Before(asked.At) {
		return false
	}
	text := fmt.Sprintf("The controller %s received a request for %s %s ago and has not started it%s", c.Name(), i.name, age(i.now, asked.At), why)
	i.say(Unsynced, "%s.", strings.TrimSuffix(text, "."))
	return true
}

// crowded reports a request that may be further down the queue than the part listed.
func (i *inquiry) crowded(c controller.View, s controller.Status) bool {
	asked, taken := i.last(c, flight.Asked), i.last(c, flight.Taken)
	switch {
	case asked != nil && (taken == nil || taken.At.Before(asked.At)):
		i.say(Waiting, "The controller %s received a request for %s %s ago. No worker has taken it, and it is not among the first %d in the queue.", c.Name(), i.name, age(i.now, asked.At), mostItems)
	case asked == nil && taken == nil:
		i.say(Unknown, "The controller %s has so many requests (%d queued) that %s may come after the first %d; the flight recorder has no record of it.", c.Name(), s.Queue.Waiting, i.name, mostItems)
	default:
		return false
	}
	return true
}

func (i *inquiry) parked(c controller.View, contents controller.Contents) bool {
	for _, parked := range contents.Parked {
		if parked.Key.Key == i.key && i.ofCluster(parked.Key.Cluster) {
			i.say(ParkedForRV, "The controller %s is waiting until the cache has %s, for at most %s more.", c.Name(), parked.Write, short(parked.Until.Sub(i.now)))
			return true
		}
	}
	return false
}

// namesake reports whether an informer of another cluster has the same name, so that the flight recorder's events may be
// of either.
func (i *inquiry) namesake(of one) bool {
	return slices.ContainsFunc(i.all, func(other one) bool {
		return other.cluster != of.cluster && other.status.Reflector.Resource == of.status.Reflector.Resource
	})
}

// findExact decides whether the controller has requests with the name of the object's cluster.
func (i *inquiry) findExact(c controller.View, contents controller.Contents) {
	is := func(r controller.Request) bool { return r.Key == i.key && r.Cluster == i.cluster }
	held := func(h workqueue.Held[controller.Request]) bool { return is(h.Key) }
	recorded := func(e flight.Entry) bool {
		return e.Role == flight.Controller && e.Name == c.Name() && e.Key == i.key && e.Cluster == i.cluster
	}
	i.exact = i.clustered && (slices.ContainsFunc(contents.Running, held) || slices.ContainsFunc(contents.Waiting, held) ||
		slices.ContainsFunc(contents.Delayed, held) || slices.ContainsFunc(i.line, recorded) ||
		slices.ContainsFunc(contents.Parked, func(p controller.Parked) bool { return is(p.Key) }))
}

// ofCluster reports whether a request of a cluster may be for the object. A source may give the process's own cluster
// any name (controller.Source.InCluster).
func (i *inquiry) ofCluster(cluster string) bool {
	switch {
	case i.exact:
		return cluster == i.cluster
	case !i.clustered, cluster == "", cluster == i.cluster:
		return true
	}
	return i.cluster == "" && !slices.ContainsFunc(i.all, func(of one) bool { return of.cluster == cluster })
}

// held reports the request's state and position in the queue.
func (i *inquiry) held(c controller.View, s controller.Status, contents controller.Contents) bool {
	at := func(held []workqueue.Held[controller.Request]) int {
		return slices.IndexFunc(held, func(h workqueue.Held[controller.Request]) bool {
			return h.Key.Key == i.key && i.ofCluster(h.Key.Cluster)
		})
	}
	if n := at(contents.Running); n >= 0 {
		text := fmt.Sprintf("The controller %s has been reconciling %s for %s.", c.Name(), i.name, age(i.now, contents.Running[n].Since))
		if i.now.Sub(contents.Running[n].Since) >= longCall {
			text += i.whereIs(c.Name(), "")
		}
		i.say(Running, "%s", text)
		return true
	}
	if n := at(contents.Waiting); n >= 0 {
		text := fmt.Sprintf("%s has been waiting for a worker of %s for %s, behind %d others", i.name, c.Name(), age(i.now, contents.Waiting[n].Since), n)
		if len(contents.Running) > 0 {
			longest := contents.Running[0]
			text += fmt.Sprintf("; %d of %d workers are busy, one with %s for %s", s.Active, s.Concurrency, longest.Key, age(i.now, longest.Since))
		}
		text += "."
		if len(contents.Running) > 0 && i.now.Sub(contents.Running[0].Since) >= longCall {
			text += i.whereIs(c.Name(), "")
		}
		i.say(Waiting, "%s", text)
		return true
	}
	if n := at(contents.Delayed); n >= 0 {
		held, last := contents.Delayed[n], i.last(c, flight.Done)
		due := short(held.Due.Sub(i.now))
		switch asked := i.setAside(c); {
		case asked != nil && held.Requeues == 0:
			i.say(Unsynced, "The controller %s received a request for %s %s ago and has not started it: %s.", c.Name(), i.name, age(i.now, asked.At), strings.TrimSuffix(i.lackingSlot(s), "."))
		case last != nil && last.Text != "":
			i.say(BackingOff, "The controller %s failed on %s %s, and will retry in %s: %s.", c.Name(), i.name, inARow(held.Requeues, age(i.now, last.At)), due, strings.TrimSuffix(last.Text, "."))
		case held.Requeues > 0:
			i.say(BackingOff, "The controller %s has requeued %s %s and will retry in %s.", c.Name(), i.name, times(held.Requeues), due)
		case held.Requeues < 0:
			i.say(BackingOff, "The controller %s will reconcile %s again in %s. Its rate limiter blocks.", c.Name(), i.name, due)
		default:
			i.say(Scheduled, "The controller %s will reconcile %s again in %s, as requested.", c.Name(), i.name, due)
		}
		return true
	}
	return false
}

// setAside returns the event of a request that no worker has started although nothing asked for a delay: its slot is
// being handed over, or a cache lacks the slot's objects.
func (i *inquiry) setAside(c controller.View) *flight.Entry {
	asked, taken := i.last(c, flight.Asked), i.last(c, flight.Taken)
	if asked == nil || asked.Change == controller.Failed.String() || asked.Change == controller.Requeued.String() || taken != nil && !taken.At.Before(asked.At) {
		return nil
	}
	return asked
}

// lackingSlot explains why a request in a slot of ours waits.
func (i *inquiry) lackingSlot(s controller.Status) string {
	var why []string
	for _, source := range s.Sources {
		for _, of := range i.all {
			if r := of.status.Reflector; r.Resource == source.Name && (r.Attempts > 0 || r.Waiting != "") {
				why = append(why, describe(of)+because(r))
			}
		}
	}
	if len(why) == 0 {
		return "its slot is being handed over, or a cache does not have all objects of the slot yet"
	}
	return "its caches do not have all objects of the slot yet: " + enumerated(why, "; ")
}

// past reports the recorded history of a request that is not in the queue.
func (i *inquiry) past(c controller.View) {
	asked, done := i.last(c, flight.Asked), i.last(c, flight.Done)
	changed, told := i.heard(c)
	later := func(e *flight.Entry) bool { return e != nil && !e.At.Before(changed.At) }
	switch {
	case changed != nil && later(told) && !later(asked) && !later(i.last(c, flight.Taken)):
		i.say(NotAsked, "The last change to %s (%s, version %s) was delivered %s ago, but no source of %s requested a reconcile: a predicate dropped it, or the map function returned other objects.", i.name, changed.Change, changed.RV, age(i.now, changed.At), c.Name())
	case done != nil && done.Text != "":
		i.say(BackingOff, "The controller %s failed on %s %s ago and will not retry (%s): %s.", c.Name(), i.name, age(i.now, done.At), done.Outcome, strings.TrimSuffix(done.Text, "."))
	case done != nil:
		i.say(Reconciled, "The controller %s reconciled %s %s ago in %s (%s), and nothing has requested it since.", c.Name(), i.name, age(i.now, done.At), short(done.Took), done.Outcome)
	case len(i.holders) > 0:
		i.say(Unknown, "The controller %s has no request for %s, and the flight recorder has no record of one: it was reconciled too long ago, a predicate dropped it, or the map function returned other objects.", c.Name(), i.name)
	default:
		i.say(Unknown, "The controller %s has no request for %s, and the flight recorder has no record of one.", c.Name(), i.name)
	}
}

// last returns the controller's last event of the given kind for the key.
func (i *inquiry) last(c controller.View, kind flight.Kind) *flight.Entry {
	for n := len(i.line) - 1; n >= 0; n-- {
		if e := &i.line[n]; e.Kind == kind && e.Role == flight.Controller && e.Name == c.Name() && e.Key == i.key && i.ofCluster(e.Cluster) {
			return e
		}
	}
	return nil
}

// heard returns the last delivery to the controller's handler, and the object's last change in the same
// informer, whether delivered or not. Changes to objects of other types with the same key are ignored.
func (i *inquiry) heard(c controller.View) (changed, told *flight.Entry) {
	if slices.ContainsFunc(i.all, func(of one) bool { return i.meant[of.status.Reflector.Resource] && i.namesake(of) }) {
		return nil, nil
	}
	for n := len(i.line) - 1; n >= 0 && told == nil; n-- {
		if e := &i.line[n]; e.Kind == flight.Told && e.Role == flight.Handler && strings.HasPrefix(e.Name, "controller "+c.Name()+": ") {
			told = e
		}
	}
	for n := len(i.line) - 1; n >= 0 && told != nil && changed == nil; n-- {
		if e := &i.line[n]; e.Kind == flight.Applied && e.Track == told.Of {
			changed = e
		}
	}
	return changed, told
}

func age(now, then time.Time) string { return short(now.Sub(then)) }

// short formats a duration with a readable precision.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// times formats a count: "once", "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// inARow formats the number of consecutive failures and the time of the last one.
func inARow(failures int, last string) string {
	if failures < 2 {
		return last + " ago"
	}
	return fmt.Sprintf("%s in a row, last %s ago", times(failures), last)
}
