package why

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
)

// attached prints the reasons reported by the process, and then compares its caches with the server.
func (q *inquiry) attached(ctx context.Context) error {
	v, err := q.look.Open(ctx, q.streams, q.types, q.console)
	if err != nil {
		return err
	}
	status, err := v.Process.Status(ctx)
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	c := &comparing{inquiry: q, sight: v, status: status}
	if c.meant, err = sight.Choose(status.Informers, q.types, true); err != nil && q.either {
		q.asKey()
		c.meant, err = status.Informers, nil
	}
	if err != nil && len(status.Informers) > 0 { // even without informers, controllers may report reasons
		return err
	}
	defer func() {
		if c.at.Client != nil {
			c.at.Client.CloseIdleConnections()
		}
	}()
	why, err := c.why(ctx)
	if refused, ok := errors.AsType[*debug.RefusedError](err); ok && refused.Code == http.StatusConflict {
		return exit.Usage("%s", strings.TrimSuffix(refused.Text, "."))
	}
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	q.answer.Key, q.answer.Reasons, q.answer.Unowned, q.answer.Entries = why.Key, why.Reasons, why.Unowned, q.lastOf(why.Entries)
	json := q.output.Value == "json"
	if !json {
		if err := q.write((*answer).writeReasons); err != nil {
			return err
		}
	}
	if err := c.caches(ctx, why); err != nil {
		if q.answer.NotCompared = err.Error(); errors.Is(err, config.ErrNoConfig) {
			q.answer.NotCompared = "there is no kubeconfig; --kubeconfig or --server selects the cluster"
		}
	}
	parts := []func(*answer, *strings.Builder){(*answer).writeComparisons, (*answer).writeEntries}
	if ctx.Err() != nil { // the reasons have already been printed
		parts = parts[1:]
	}
	if err := q.write(parts...); err != nil {
		return err
	}
	if q.nowhere(why) {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s is in no cache%s", &q.subject, q.andServer())}
	}
	return nil
}

// why queries the process. If no cache contains the object and no namespace was given, it retries with the
// kubeconfig's namespace. If the process shares work with others and does not have the object, only the
// object on the server reveals the owner. There would be no reason to print without it, so in this case why
// waits for the server.
func (c *comparing) why(ctx context.Context) (*debug.Why, error) {
	ask := func() (*debug.Why, error) { return c.sight.Process.Why(ctx, c.types, c.controller, c.key) }
	why, err := ask()
	if err != nil {
		return nil, err
	}
	if c.key = why.Key; len(why.Cached) == 0 && c.otherNamespace(ctx) {
		if why, err = ask(); err != nil {
			return nil, err
		}
	}
	if len(why.Unowned) == 0 {
		return why, nil
	}
	hash, err := c.hash(ctx, why.Unowned[0])
	if err != nil {
		c.console.Trouble(time.Now(), "%-12s  this replica does not have %s, and its owner is unknown: %s", "owner", object.FormatKey(c.key), exit.Advised(err))
		return why, nil
	}
	return c.sight.Process.WhyOf(ctx, c.types, c.controller, c.key, hash)
}

// otherNamespace changes the namespace of an object that is not in any cache, and reports whether it did. It
// removes the namespace if the kind is cluster-scoped, and otherwise uses the kubeconfig's.
func (c *comparing) otherNamespace(ctx context.Context) bool {
	before := c.key.Namespace
	one, err := c.sight.Process.Objects(ctx, debug.Which{Informer: c.types}, debug.Page{Limit: 1})
	switch without := err == nil && len(one.Heads) > 0 && one.Heads[0].Namespace == ""; {
	case without:
		c.key.Namespace = ""
	case before != "":
	case c.server() == nil:
		c.key.Namespace = c.sight.Config.Namespace
	default:
		c.console.Trouble(time.Now(), "%-12s  none was given: use -n to find an object in a namespace", "namespace")
	}
	return c.key.Namespace != before
}

// hash returns the object's hash under the sharing's key function.
func (c *comparing) hash(ctx context.Context, of debug.Sharing) (uint64, error) {
	key, known := shard.KeyNamed(of.Key)
	if !known {
		return 0, fmt.Errorf("the group %s shards by %s, a custom function: query the replica that owns the object", of.Group, of.Key)
	}
	arg, err := object.ParseResourceArg(sight.Resource(of.Informer))
	if err != nil {
		return 0, err
	}
	s, err := c.served(ctx, arg)
	switch {
	case err != nil:
		return 0, err
	case s.object == nil:
		return 0, errors.New("it is not on the server either")
	}
	return key.Hash(s.object), nil
}

// caches compares the server with each cache that contains the object or, if none does, with each that could
// contain it.
func (c *comparing) caches(ctx context.Context, why *debug.Why) error {
	meant := c.meant
	if len(why.Cached) > 0 {
		meant = slices.DeleteFunc(slices.Clone(meant), func(i debug.Informer) bool { return !slices.Contains(why.Cached, i.Which()) })
	}
	const most = 3
	switch {
	case len(meant) == 0:
		return errors.New("no informer watches it")
	case len(why.Cached) == 0 && c.types == "" && len(meant) > 1:
		return errors.New("no cache has it: use TYPE/NAME to look for it on the server")
	case len(meant) > most:
		meant = meant[:most]
	}
	for n := range meant {
		if err := c.informer(ctx, &meant[n]); err != nil {
			return cluster.RootCause(err)
		}
	}
	return nil
}

// nowhere reports whether the object is absent from all caches, from the server (if it was queried), and from
// the flight recorder.
func (q *inquiry) nowhere(why *debug.Why) bool {
	missing := func(r debug.Reason) bool { return r.Cause == debug.NotCached || r.Cause == debug.NoInformer }
	unknown := func(r debug.Reason) bool {
		return slices.Contains([]debug.Cause{debug.Unsynced, debug.Elsewhere, debug.HandedOver}, r.Cause)
	}
	served := func(c comparison) bool { return !c.absent() }
	return len(why.Cached)+len(why.Unowned)+len(why.Entries) == 0 && slices.ContainsFunc(why.Reasons, missing) &&
		!slices.ContainsFunc(why.Reasons, unknown) && !slices.ContainsFunc(q.answer.Comparisons, served)
}

// andServer completes the sentence saying that the object is not in any cache.
func (q *inquiry) andServer() string {
	if len(q.answer.Comparisons) > 0 {
		return ", and not on the server"
	}
	return ", and the server was not queried"
}

func (a *answer) writeReasons(b *strings.Builder) {
	for _, r := range a.Reasons {
		line(b, "%s", r.Text)
	}
}

// writeEntries prints the object's last events.
func (a *answer) writeEntries(b *strings.Builder) {
	if len(a.Entries) > 0 {
		b.WriteString("\n")
	}
	for n := range a.Entries {
		attach.WriteEntry(b, &a.Entries[n])
	}
}

// writeComparisons prints the object's state in the caches and on the server, or why it is unknown.
func (a *answer) writeComparisons(b *strings.Builder) {
	if len(a.Reasons) > 0 {
		b.WriteString("\n")
	}
	for n := range a.Comparisons {
		a.Comparisons[n].write(b)
	}
	if a.NotCompared != "" {
		line(b, "Not compared with the server: %s.", strings.TrimSuffix(terminal.OneLine(a.NotCompared), "."))
	}
}
