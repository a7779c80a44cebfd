package why

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/shard"
)

// comparing compares caches with a server.
type comparing struct {
	*inquiry
	sight  *sight.Sight
	status *debug.Status
	meant  []debug.Informer           // selected by TYPE
	at     cluster.Target             // zero before server
	asked  map[object.GVR]servedState // by TYPE
}

// servedState is an object on the server.
type servedState struct {
	mapping discovery.Mapping
	object  *unstructured.Unstructured // nil if it is not on the server
}

// comparison is an object in a cache and on the server.
type comparison struct {
	Informer string
	Verdict  string         // a sentence that compares the two
	Cached   *version       // nil if it is not in the cache
	Served   *version       // nil if it is not on the server
	Fields   []diff.Change  `json:",omitzero"` // that differ
	Withheld string         `json:",omitzero"` // why only labels were compared
	Events   *clusterEvents `json:",omitzero"`
}

// version identifies a version of an object.
type version struct {
	RV         string
	Generation int64
	UID        string
	UpTo       string    `json:",omitzero"` // for a cache: the version up to which it is complete
	Created    time.Time `json:",omitzero"` // of a server's
	Changed    time.Time `json:",omitzero"`
}

func cachedVersion(o *debug.Object) *version {
	if o == nil {
		return nil
	}
	return &version{RV: o.Head.RV, Generation: o.Head.Generation, UID: o.Head.UID, UpTo: o.RV}
}

// absent reports whether the object is neither in the cache nor on the server.
func (c *comparison) absent() bool { return c.Cached == nil && c.Served == nil }

// server determines the cluster to compare with. It sends no requests.
func (c *comparing) server() (err error) {
	if c.at.Client == nil {
		c.at, err = c.sight.Server(c.streams)
	}
	return err
}

// served reads the object from the server. If a process is attached, the reasons are already known, so
// the timeout is short.
func (c *comparing) served(ctx context.Context, arg object.GVR) (s servedState, err error) {
	if s, ok := c.asked[arg]; ok {
		return s, nil
	}
	if err := c.server(); err != nil {
		return s, err
	}
	patience := cluster.Patience(c.sight.Config)
	if c.look.To != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: no response within %s", c.at.Server, patience))
		defer cancel()
	}
	why := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if s.mapping, err = c.at.Resolve(ctx, arg, patience, c.console); err != nil {
		return s, why(c.at.Unavailable(cluster.RootCause(err), err))
	}
	key := c.key
	if !s.mapping.Namespaced {
		key.Namespace = ""
	}
	s.object, err = rest.ResourceForMapping[*unstructured.Unstructured](c.at.Client, s.mapping).Get(ctx, key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		s.object, err = nil, nil
	}
	if err != nil {
		return s, why(c.at.Unavailable(err, err))
	}
	if c.asked == nil {
		c.asked = map[object.GVR]servedState{}
	}
	c.asked[arg] = s
	return s, nil
}

// informer compares one cache with the server. It reads the cache first, so that the server's state is never
// the older of the two.
func (c *comparing) informer(ctx context.Context, i *debug.Informer) error {
	load := &c.look.Connect.Load
	if i.Cluster != "" && load.Context == "" && load.Cluster == "" && load.Server == "" {
		return fmt.Errorf("%s belongs to cluster %s: select it with --context", i.Reflector.Resource, i.Cluster)
	}
	scopes, err := sight.Scopes(i)
	if err != nil {
		return &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	cached, err := c.sight.Process.Object(ctx, i.Which(), c.key)
	if missing(err) {
		err = nil
	}
	if err != nil {
		return c.sight.Unanswered(ctx, err)
	}
	_, before := c.asked[scopes[0].Resource]
	s, err := c.served(ctx, scopes[0].Resource)
	if err != nil {
		return err
	}
	one := comparison{Informer: i.Reflector.Resource, Cached: cachedVersion(cached)}
	if cached != nil {
		one.Withheld = cached.Withheld
	}
	if o := s.object; o != nil {
		one.Served = &version{RV: o.GetResourceVersion(), Generation: o.GetGeneration(), UID: string(o.GetUID()), Created: o.GetCreationTimestamp().Time, Changed: lastChange(o)}
	}
	if one.Fields, err = differing(i, cached, s.object); err != nil {
		one.Withheld = err.Error()
	}
	one.Verdict = c.verdict(&one, i, s.object, scopes)
	if !before && !one.absent() {
		uid := one.Cached
		if one.Served != nil {
			uid = one.Served
		}
		one.Events = readEvents(ctx, c.at.Client, s.mapping.Kind.Kind, c.key, uid.UID)
	}
	c.answer.Comparisons = append(c.answer.Comparisons, one)
	return nil
}

// quiet is how long a watch may be silent before a missing change makes it look suspicious.
const quiet = 10 * time.Second

// verdict returns a sentence comparing the two states.
func (c *comparing) verdict(one *comparison, i *debug.Informer, served *unstructured.Unstructured, scopes []sight.Scope) string {
	upTo := i.RV
	i = i.In(c.key.Namespace)
	if one.Cached != nil {
		upTo = one.Cached.UpTo
	}
	check := "see informer-debug check"
	if c.look.To != "" {
		check += " --attach " + c.look.To
	}
	way := func(rv string) string {
		if !i.Synced {
			return "the informer has no complete initial list: " + i.Reflector.Missing().Error()
		}
		if object.ReachedRV(upTo, rv) {
			return "the cache is complete up to version " + upTo + ", and should have it: " + check
		}
		late := "is on its way"
		if trouble := i.Trouble(c.status.At); trouble != "" {
			late = "has not arrived: " + trouble
		} else if silence := i.Silence(c.status.At); silence >= quiet {
			late += ", unless the watch is dead: it has received nothing for " + terminal.Duration(silence)
		}
		return "the cache is complete up to version " + terminal.OrDash(upTo) + ", and the change " + late
	}
	called := c.String()
	if c.types == "" {
		called = i.Reflector.Resource + "/" + c.key.Name
	}
	switch has, is := one.Cached, one.Served; {
	case one.absent():
		return fmt.Sprintf("%s is neither in the cache nor on the server.", called)
	case has == nil:
		return fmt.Sprintf("%s is on the server but not in the cache%s.", called, leftOut(i, served, scopes, func() string { return way(is.RV) }))
	case is == nil:
		return fmt.Sprintf("%s is in the cache, complete up to version %s, and not on the server%s. Its deletion is on its way, or was missed: %s.", called, terminal.OrDash(upTo), sight.AndTrouble(i, c.status.At), check)
	case has.UID != is.UID:
		return fmt.Sprintf("%s was deleted and created again, and the cache has the previous one: %s.", called, way(is.RV))
	case has.RV == is.RV && len(one.Fields) > 0:
		return fmt.Sprintf("The cache has %s with the server's version %s, and %d fields differ: a transform or Keep changed them, or the program has written to the cached object, or to another that shares memory with it.", called, is.RV, len(one.Fields))
	case has.RV == is.RV && one.Withheld != "":
		return fmt.Sprintf("The cache has %s with the server's version %s.", called, is.RV)
	case has.RV == is.RV:
		return fmt.Sprintf("The cache has %s, same as the server, at version %s.", called, is.RV)
	case sight.Newer(has.RV, is.RV):
		return fmt.Sprintf("The cache has version %s of %s, and the server returns version %s, which is older: check that it is the same cluster.", has.RV, called, is.RV)
	default:
		return fmt.Sprintf("The cache has version %s of %s, and the server version %s: %s.", has.RV, called, is.RV, way(is.RV))
	}
}

// leftOut completes a sentence with the reason the cache lacks an object that is on the server. If there is
// no known reason, the object must be late, as way explains.
func leftOut(i *debug.Informer, served *unstructured.Unstructured, scopes []sight.Scope, way func() string) string {
	var reasons, fields []string
	for _, s := range scopes {
		if reason := s.LeavesOut(served); reason != "" {
			reasons = append(reasons, reason)
		} else if s.OfFields() != "" {
			fields = append(fields, s.OfFields())
		}
	}
	switch {
	case len(reasons) == len(scopes):
		return fmt.Sprintf(", which contains %s: %s", i.Reflector.Resource, reasons[0])
	case i.Selection != shard.SelectionNone:
		return ": it belongs to another replica, or " + way()
	case len(fields)+len(reasons) == len(scopes):
		return fmt.Sprintf(": it does not match %s, or %s", fields[0], way())
	}
	return ": " + way()
}

func (c *comparison) write(b *strings.Builder) {
	line(b, "%s", c.Verdict)
	if v := c.Cached; v != nil {
		line(b, "  cache   version %s, generation %d, UID %s; complete up to version %s", v.RV, v.Generation, v.UID, terminal.OrDash(v.UpTo))
	}
	if v := c.Served; v != nil {
		age := ""
		if !v.Created.IsZero() {
			age = ", created " + terminal.Duration(time.Since(v.Created)) + " ago"
		}
		if !v.Changed.IsZero() {
			age += ", changed " + terminal.Duration(time.Since(v.Changed)) + " ago"
		}
		line(b, "  server  version %s, generation %d, UID %s%s", v.RV, v.Generation, v.UID, age)
	}
	switch {
	case c.Withheld != "" && c.Cached != nil && c.Served != nil:
		line(b, "Only labels are compared: %s.", c.Withheld)
	case c.Withheld != "":
		line(b, "Fields are not compared: %s.", c.Withheld)
	}
	if len(c.Fields) > 0 {
		line(b, "From the cache to the server:")
	}
	for _, change := range c.Fields {
		line(b, "  %s", change.Text(true))
	}
	if c.Events != nil {
		c.Events.write(b)
	}
}

// lastChange returns the time of the last write according to the managed fields, to the second.
func lastChange(o *unstructured.Unstructured) (at time.Time) {
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
