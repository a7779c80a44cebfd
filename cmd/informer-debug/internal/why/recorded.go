package why

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
)

// recorded shows the object's history in a recording.
func (q *inquiry) recorded(ctx context.Context, v *sight.Sight) error {
	found, err := v.RecordedAs(q.types)
	switch {
	case err != nil:
		return err
	case len(found) != 1:
		return exit.Usage("%q matches %d informers in %s: use -n to select one", q.types, len(found), v.Called)
	}
	o := &found[0]
	q.key.Namespace = o.RecordedNamespace(q.key.Namespace)
	if q.key.Namespace == "" && o.Target.Mapping.Namespaced {
		return exit.Usage("%s is namespaced: specify the namespace with -n", &q.subject)
	}
	informer := debug.Informer{Status: o.Informer.Status()}
	cached, err := v.Process.Object(ctx, informer.Which(), q.key)
	if missing(err) {
		err = nil
	}
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	timeline, err := v.Process.Timeline(ctx, informer.Reflector.Resource, q.key)
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	if cached == nil && len(timeline.Entries) == 0 {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s is unknown: it is neither in the cache at the end of %s nor in any earlier change", &q.subject, v.Called)}
	}
	one := comparison{Informer: informer.Reflector.Resource, Cached: cachedVersion(cached)}
	upTo := terminal.OrDash(informer.RV)
	if one.Verdict = fmt.Sprintf("At the end of the recording, %s is not in the cache, which is complete up to version %s.", &q.subject, upTo); cached != nil {
		one.Verdict = fmt.Sprintf("At the end of the recording, the cache has %s with version %s, and is complete up to version %s.", &q.subject, cached.Head.RV, upTo)
	}
	q.answer = answer{Key: q.key, Comparisons: []comparison{one}, Entries: q.lastOf(timeline.Entries)}
	return q.write((*answer).writeComparisons, func(a *answer, b *strings.Builder) {
		b.WriteString("\n")
		for n := range a.Entries {
			line(b, "%s", a.Entries[n].What()) // omit the time, since it is that of the replay
		}
	})
}

// missing reports whether err is the process's response for an object that is not in a cache.
func missing(err error) bool {
	refused, ok := errors.AsType[*debug.RefusedError](err)
	return ok && refused.Code == http.StatusNotFound
}
