package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
)

// brisk is the back-off of clients: the servers are back soon.
var brisk = reflector.Backoff{Initial: 50 * time.Millisecond, Max: time.Second}

// subject is a follower of any type.
type subject interface {
	Name() string
	Status() sharedinformer.Status
	said(since time.Time, words *regexp.Regexp) string
	differs(ctx context.Context) string
	start()
	stop()
	settle()
	whim(r *rand.Rand)
	route() string
}

// follower is one informer under test, with two witnesses: one that receives every change, and one
// that receives merged changes.
type follower[T object.Object] struct {
	*sharedinformer.Informer[T]
	w       *world
	form    string               // its special property
	by      string               // the link that it uses
	truth   source.ListerWatcher // the same objects, directly from a server
	opts    sharedinformer.Options
	several bool // its namespaces change
	foreign bool // not run by the test

	witnesses []*witness[T]
	late      []*sharedinformer.Registration // of the most recent witnesses

	mu       sync.Mutex // guards failures
	failures []*failure.Failure
	halt     func()
}

// follow returns a follower of the source that of returns for a client. It is not running yet.
func follow[T object.Object](w *world, form, by string, opts sharedinformer.Options, of func(*rest.Client) source.ListerWatcher) {
	f := &follower[T]{w: w, form: form, by: by, truth: of(w.direct[0]), halt: func() {}}
	opts.Timing.Backoff = brisk
	opts.OnError = f.note
	f.opts, f.several = opts, opts.Namespaces != nil
	f.attach(sharedinformer.New[T](of(w.clients[by]), opts))
	w.subjects = append(w.subjects, f)
}

// attach adds witnesses to an informer.
func (f *follower[T]) attach(i *sharedinformer.Informer[T]) {
	f.Informer = i
	for _, lag := range []sharedinformer.Lag{sharedinformer.Unbounded, sharedinformer.Coalesce} {
		f.witness(sharedinformer.HandlerOptions{Lag: lag})
	}
}

func (f *follower[T]) witness(opts sharedinformer.HandlerOptions) *sharedinformer.Registration {
	opts.Name = fmt.Sprintf("%s, witness %d", f.Name(), len(f.witnesses)+1)
	wit := &witness[T]{name: opts.Name, complain: f.w.complain, cache: f.Cache().Get, heard: &f.w.heard, known: map[object.Key]T{}}
	f.witnesses = append(f.witnesses, wit)
	return f.AddHandlerWith(wit, opts)
}

// Name returns a unique name.
func (f *follower[T]) Name() string { return f.form + " " + f.Informer.Name() }

func (f *follower[T]) route() string { return f.by }

func (f *follower[T]) note(_ context.Context, one *failure.Failure) failure.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures = append(f.failures, one); len(f.failures) > 200 {
		f.failures = slices.Delete(f.failures, 0, 100)
	}
	f.w.failed.Add(1)
	return failure.Retry
}

// said returns the match of words in its status or in a failure since then. If there is none, it
// returns the texts.
func (f *follower[T]) said(since time.Time, words *regexp.Regexp) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.failures {
		if one.Last.After(since) && words.MatchString(one.Error()) {
			return ""
		}
	}
	s := f.Status()
	texts := []string{fmt.Sprintf("%s %s, %d attempts, synced %t", s.Reflector.State, s.Reflector.Waiting, s.Reflector.Attempts, s.Synced)}
	for _, each := range append(s.Namespaces, s.Reflector) {
		last := each.Failure
		if words.MatchString(each.Waiting) || last != nil && last.Last.After(since) && words.MatchString(last.Error()) {
			return ""
		}
	}
	for _, one := range f.failures {
		if one.Last.After(since) {
			texts = append(texts, one.Error())
		}
	}
	return f.Name() + " says: " + strings.Join(texts[max(0, len(texts)-4):], "\n  and ")
}

// start runs the informer until stop.
func (f *follower[T]) start() {
	if f.foreign {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := f.Start(ctx)
	if err != nil {
		f.w.complain("%s: start: %v", f.Name(), err)
	}
	f.halt = sync.OnceFunc(func() {
		cancel()
		began := time.Now()
		if err := wait(); err != nil {
			f.w.complain("%s: run: %v", f.Name(), err)
		}
		if took := time.Since(began); took > 10*time.Second {
			f.w.complain("%s: it took %v to stop", f.Name(), took)
		}
	})
}

func (f *follower[T]) stop() { f.halt() }

// whim performs a random operation that an owner may perform at any time.
func (f *follower[T]) whim(r *rand.Rand) {
	switch n := r.IntN(4); {
	case n == 0 && !f.foreign:
		f.stop()
		f.start()
	case n == 1 && f.several:
		var some []string
		for _, ns := range f.w.namespaces {
			if r.IntN(2) == 0 {
				some = append(some, ns)
			}
		}
		if err := f.SetNamespaces(append(some, f.w.namespaces[0])); err != nil {
			f.w.complain("%s: set namespaces: %v", f.Name(), err)
		}
	case n == 2 && len(f.late) < 3:
		f.late = append(f.late, f.witness(sharedinformer.HandlerOptions{}))
	case n == 3 && len(f.late) > 0:
		f.dismiss()
	}
}

// dismiss removes the late witnesses. They must not be called afterwards (L07).
func (f *follower[T]) dismiss() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	leaving, last := f.late[len(f.late)-1], len(f.witnesses)-1
	if err := leaving.CloseAndWait(ctx); err != nil {
		f.w.complain("%s: close: %v", leaving.Name(), err)
	}
	f.witnesses[last].gone.Store(true)
	f.late, f.witnesses = f.late[:len(f.late)-1], f.witnesses[:last]
}

// settle reverts all whims.
func (f *follower[T]) settle() {
	for len(f.late) > 0 {
		f.dismiss()
	}
}

// differs compares the cache and the witnesses with a fresh list, and returns the differences.
func (f *follower[T]) differs(ctx context.Context) string {
	// Failures are shown until something arrives on the new watch, which may be a bookmark a minute
	// later. An accepted watch is good enough.
	if s := f.Status(); !s.Synced || s.Reflector.State != reflector.Watching {
		return fmt.Sprintf("%s: %v, synced %t, %d attempts, failure %v", f.Name(), s.Reflector.State, s.Synced, s.Reflector.Attempts, s.Reflector.Failure)
	}
	want, err := f.fresh(ctx)
	if err != nil {
		return fmt.Sprintf("%s: read the truth: %v", f.Name(), err)
	}
	cached := map[object.Key]T{}
	for o := range f.Cache().All() {
		cached[object.KeyOf(o)] = o
	}
	if d := difference(want, cached); d != "" {
		return fmt.Sprintf("%s: cache and server: %s", f.Name(), d)
	}
	for _, wit := range f.witnesses {
		if d := difference(want, wit.knows()); d != "" {
			return fmt.Sprintf("%s and server: %s", wit.name, d)
		}
	}
	return ""
}

// fresh lists the objects that the informer should have.
func (f *follower[T]) fresh(ctx context.Context) (map[object.Key]T, error) {
	var opts source.Request
	if f.opts.LabelSelector != nil {
		opts.LabelSelector = f.opts.LabelSelector.String()
	}
	all, namespaces := map[object.Key]T{}, f.Namespaces()
	for o, err := range f.truth.List(ctx, opts).Items {
		if err != nil {
			return nil, err
		}
		if !f.several || slices.Contains(namespaces, o.GetNamespace()) {
			all[object.KeyOf(o)] = o.(T)
		}
	}
	return all, nil
}

// difference returns a key in which two sets differ, and how. Whether an object has its kind set
// depends on how it was read, and does not count.
func difference[T object.Object](want, got map[object.Key]T) string {
	for key, w := range want {
		switch g, ok := got[key]; {
		case !ok:
			return fmt.Sprintf("%s is missing (%d of %d)", key, len(got), len(want))
		case w.GetResourceVersion() != g.GetResourceVersion():
			return fmt.Sprintf("%s is %s instead of %s", key, text(g), text(w))
		case !equality.Semantic.DeepEqual(bare(w), bare(g)):
			return fmt.Sprintf("%s differs: want %v, got %v", key, w, g)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			return fmt.Sprintf("%s is too much (%d of %d)", key, len(got), len(want))
		}
	}
	return ""
}

func bare[T object.Object](o T) any {
	c := o.DeepCopyObject()
	c.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return c
}
