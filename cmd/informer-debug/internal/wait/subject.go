package wait

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// subject is something to wait for: an informer, one or all of its objects, or a queue.
type subject struct {
	called    string // as typed
	types     string
	which     debug.Which
	name      string // name of an object; empty for none
	namespace string
	uid       string // UID of the object when first seen
}

// subjectsOf parses the arguments.
func (f *waitFlags) subjectsOf(args []string) (all []subject, err error) {
	for _, arg := range args {
		types, name, named := attach.CutName(arg)
		switch {
		case types == "", named && name == "", strings.Contains(name, "/"):
			return nil, exit.Usage("%q: want TYPE or TYPE/NAME", arg)
		case named && !f.condition.ofObject():
			return nil, exit.Usage("%q: --for=%s applies to an informer or a queue: omit the name", arg, f.until)
		}
		all = append(all, subject{called: arg, types: types, name: name})
	}
	return all, nil
}

// nameAll sets the names of the subjects' informers. A category is expanded to several subjects.
func nameAll(ctx context.Context, v *sight.Sight, subjects []subject) (all []subject, err error) {
	for _, one := range subjects {
		if v.Flags.To != "" {
			one.which, one.namespace = debug.Which{Informer: one.types}, v.Flags.Namespace
			all = append(all, one)
			continue
		}
		if v.Played != nil {
			found, err := v.RecordedAs(one.types)
			if err != nil {
				return nil, err
			}
			for n := range found {
				named := one
				named.which, named.namespace = debug.Which{Informer: found[n].Informer.Status().Reflector.Resource}, found[n].RecordedNamespace(v.Flags.Namespace)
				all = append(all, named)
			}
			continue
		}
		at := cluster.Target{Client: v.Client, Server: v.Called}
		mappings, err := at.ResolveAll(ctx, one.types, cluster.Patience(v.Config), nil)
		if err != nil {
			return nil, err
		}
		for _, o := range v.Informers {
			for _, m := range mappings {
				if o.Target.Mapping.Resource == m.Resource {
					named := one
					named.which, named.namespace = debug.Which{Informer: o.Informer.Status().Reflector.Resource}, o.Target.Namespace
					all = append(all, named)
				}
			}
		}
	}
	return all, nil
}

// is reports whether a subject meets the condition, and describes its state.
func (w *waiter) is(ctx context.Context, s *subject, status *debug.Status) (bool, string, error) {
	if w.condition.kind == forQueue {
		return w.queueIs(s, status)
	}
	found := sight.Named(status.Informers, s.which.Informer)
	switch {
	case len(found) == 0:
		var names []string
		for _, i := range status.Informers {
			names = append(names, i.Reflector.Resource)
		}
		return false, "", &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no informer is named %q; available: %s", s.which.Informer, strings.Join(names, "; "))}
	case len(found) > 1 && w.condition.ofObject():
		return false, "", sight.Several(s.which.Informer, found)
	}
	var all []string
	called := sight.Distinct(found)
	for n := range found {
		ok, text := w.informerIs(&found[n])
		if len(found) > 1 {
			text = called[n] + ": " + text
		}
		if !ok {
			return false, text, nil
		}
		all = append(all, text)
	}
	if w.condition.ofObject() {
		return w.objectsAre(ctx, s, &found[0])
	}
	return true, strings.Join(all, "; "), nil
}

// informerIs reports whether an informer meets the condition. For conditions on objects, it reports whether the cache
// is complete.
func (w *waiter) informerIs(i *debug.Informer) (bool, string) {
	if !i.Synced {
		return false, "no complete initial list: " + i.Reflector.Missing().Error()
	}
	switch behind := i.QueueAge; w.condition.kind {
	case forRV:
		return object.ReachedRV(i.RV, w.condition.rv), fmt.Sprintf("the cache is complete up to version %s%s", terminal.OrDash(i.RV), sight.AndTrouble(i, time.Now()))
	case forLag:
		whose := "the queue of changes"
		for _, h := range i.Handlers {
			if h.Behind > behind {
				behind, whose = h.Behind, "handler "+h.Name
			}
		}
		return behind < w.condition.lag && i.Reflector.Attempts == 0 && i.Reflector.State != reflector.Stopped, fmt.Sprintf("%s is %s behind%s", whose, terminal.Duration(behind), sight.AndTrouble(i, time.Now()))
	}
	return true, fmt.Sprintf("%d objects are in the cache, complete up to version %s", i.Objects, terminal.OrDash(i.RV))
}

func (w *waiter) queueIs(s *subject, status *debug.Status) (bool, string, error) {
	var names []string
	for _, c := range status.Controllers {
		if names = append(names, c.Name); c.Name == s.types {
			q := &c.Queue
			begun := !c.Since.IsZero() && c.State != controller.Idle && c.State != controller.Waiting
			return begun && q.Waiting+q.Running+c.Parked <= w.condition.most,
				fmt.Sprintf("%d queued, %d in progress, %d parked (controller %s)", q.Waiting, q.Running, c.Parked, c.State), nil
		}
	}
	for _, q := range status.Queues {
		if names = append(names, q.Name); q.Name == s.types {
			return q.Waiting+q.Running <= w.condition.most, fmt.Sprintf("%d queued, %d in progress", q.Waiting, q.Running), nil
		}
	}
	if len(names) == 0 {
		return false, "", &exit.Error{Code: exit.CodeUnavailable, Err: errors.New("the process exposes no controllers or queues")}
	}
	return false, "", &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("no controller or queue is named %q; available: %s", s.types, strings.Join(names, ", "))}
}

// objectsAre reports whether one object, or all objects of an informer, meet the condition.
func (w *waiter) objectsAre(ctx context.Context, s *subject, i *debug.Informer) (bool, string, error) {
	if err := s.placed(i); err != nil {
		return false, "", err
	}
	if s.name != "" {
		ok, text, err := w.objectIs(ctx, s, object.Key{Namespace: s.namespace, Name: s.name})
		if !ok {
			text += sight.AndTrouble(i, time.Now())
		}
		return ok, text, err
	}
	var keys []object.Key
	page := debug.Page{Namespace: s.namespace, Selector: w.sight.Flags.Selector, Limit: 1000}
	for {
		objects, err := w.sight.Process.Objects(ctx, s.which, page)
		if err != nil {
			return false, "", w.sight.Unanswered(ctx, err)
		}
		for _, h := range objects.Heads {
			keys = append(keys, object.Key{Namespace: h.Namespace, Name: h.Name})
		}
		if page.Continue = objects.Continue; page.Continue == "" {
			break
		}
	}
	if len(keys) == 0 && s.namespace != "" {
		if err := w.misplaced(ctx, s); err != nil {
			return false, "", err
		}
	}
	there := fmt.Sprintf("%d objects are in the cache%s", len(keys), sight.AndTrouble(i, time.Now()))
	switch {
	case w.condition.kind == forCreate:
		return len(keys) > 0, there, nil
	case w.condition.kind == forDelete:
		return len(keys) == 0, there, nil
	case len(keys) == 0:
		return false, there, nil
	}
	for _, key := range keys {
		ok, text, err := w.objectIs(ctx, s, key)
		if err != nil {
			return false, "", err
		}
		text = object.FormatKey(key) + ": " + text
		if ok == w.any {
			return ok, text, nil
		}
	}
	return !w.any, fmt.Sprintf("%s holds for %d objects", w.condition.text, len(keys)), nil
}

// objectIs reports whether one object meets the condition.
func (w *waiter) objectIs(ctx context.Context, s *subject, key object.Key) (bool, string, error) {
	o, err := w.sight.Process.Object(ctx, s.which, key)
	if refused, ok := errors.AsType[*debug.RefusedError](err); ok && refused.Code == http.StatusNotFound && strings.Contains(refused.Text, "is not in the cache") {
		return w.condition.kind == forDelete, "it is not in the cache", w.misplaced(ctx, s)
	}
	if err != nil {
		return false, "", w.sight.Unanswered(ctx, err)
	}
	if s.uid == "" {
		s.uid = o.Head.UID
	}
	switch {
	case w.condition.kind == forCreate:
		return true, "it is in the cache with version " + o.Head.RV, nil
	case w.condition.kind == forDelete && s.uid != o.Head.UID:
		return true, "it was deleted and created again", nil
	case w.condition.kind == forDelete && o.Head.Deleting:
		return false, "it is being deleted but still in the cache with version " + o.Head.RV, nil
	case w.condition.kind == forDelete:
		return false, "it is in the cache with version " + o.Head.RV, nil
	case o.Withheld != "":
		return false, "", &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("--for=%s needs the contents of %s: %s", w.until, object.FormatKey(key), o.Withheld)}
	}
	var tree map[string]any
	numbers := json.NewDecoder(bytes.NewReader(o.Contents))
	numbers.UseNumber()
	if err := numbers.Decode(&tree); err != nil {
		return false, "", &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("contents of %s: %w", object.FormatKey(key), err)}
	}
	ok, text := w.condition.holds(tree)
	return ok, text, nil
}

// placed sets the subject's namespace if the informer's name contains one. It returns an error if the
// informer does not watch the subject's namespace, since the object's absence would then mean nothing.
func (s *subject) placed(i *debug.Informer) error {
	scopes, err := sight.Scopes(i)
	if err != nil {
		return nil // the name does not describe a scope
	}
	if s.namespace == "" && s.name != "" && len(scopes) == 1 {
		s.namespace = scopes[0].Namespace
	}
	for _, one := range scopes {
		if _, left := one.Within(s.namespace); left {
			return nil
		}
	}
	return exit.Usage("%s does not watch namespace %s: use another -n", i.Reflector.Resource, s.namespace)
}

// misplaced returns an error if the cached objects are namespaced and the subject is not, or vice versa. Such
// a subject would never be in the cache, even if it existed.
func (w *waiter) misplaced(ctx context.Context, s *subject) error {
	one, err := w.sight.Process.Objects(ctx, s.which, debug.Page{Limit: 1})
	switch {
	case err != nil:
		return w.sight.Unanswered(ctx, err)
	case len(one.Heads) == 0:
		return nil
	case s.namespace == "" && one.Heads[0].Namespace != "":
		return exit.Usage("%s is namespaced: specify the namespace with -n", s.called)
	case s.namespace != "" && one.Heads[0].Namespace == "":
		return exit.Usage("%s are not namespaced: omit -n", s.types)
	}
	return nil
}
