package laws

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

var podKind = object.GVK{Version: "v1", Kind: "Pod"}

// bad lists the defects of the first frame of a watch, or of the first item of a list.
var bad = map[string]struct {
	do    apiservertest.Action
	cause error
}{
	"garbled":    {apiservertest.Garble{}, nil},
	"truncated":  {apiservertest.Truncate{}, io.ErrUnexpectedEOF},
	"wrong type": {apiservertest.WrongType{}, nil},
}

// Typed pods arrive in protobuf, unstructured ones in JSON, and both in CBOR on request.
func TestL21_BadInput(t *testing.T) {
	for name, tc := range bad {
		t.Run(name, func(t *testing.T) {
			t.Run("protobuf", func(t *testing.T) {
				badInput[*corev1.Pod](t, tc.do, tc.cause, func(r *rig) source.ListerWatcher { return rest.ResourceFor[*corev1.Pod](r.client).Source() })
			})
			t.Run("JSON", func(t *testing.T) {
				badInput[*unstructured.Unstructured](t, tc.do, tc.cause, func(r *rig) source.ListerWatcher {
					return rest.ResourceForKind[*unstructured.Unstructured](r.client, podKind).Source()
				})
			})
			t.Run("CBOR", func(t *testing.T) {
				badInput[*corev1.Pod](t, tc.do, tc.cause, podsInCBOR)
			})
		})
	}
}

func podsInCBOR(r *rig) source.ListerWatcher {
	r.speakCBOR()
	return rest.ResourceFor[*corev1.Pod](r.client).Source()
}

func badInput[T object.Object](t *testing.T, do apiservertest.Action, cause error, from func(r *rig) source.ListerWatcher) {
	// A garbled JSON frame may lack its end. The informer then notices the silence after it.
	silence := func(f *failure.Failure) bool { return cause == nil && errors.Is(f, reflector.ErrNoEnd) }
	decodeFailure := func(r *rig, s reflector.Status, all []failure.Failure) {
		r.Helper()
		require.Contains(r, phases(all), failure.PhaseDecode)
		for n := range all {
			f := &all[n]
			require.Equal(r, "pods", f.Resource)
			require.Equal(r, n+1, f.Attempts, "not a success in between")
			if silence(f) {
				continue
			}
			require.ErrorContains(r, f, "pods: decode: ")
			if cause != nil {
				require.ErrorIs(r, f, cause)
			}
		}
		require.EqualValues(r, len(all), s.Failures)
		require.Equal(r, len(all), s.Attempts)
		require.Equal(r, all[len(all)-1].Err, s.Failure.Err)
	}
	for name, initial := range map[string]reflector.Initial{"list": reflector.List, "stream": reflector.WatchList} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(3)
				r.fault("", do)
				reported := &failures{}
				i := newInformer[T](from(r), sharedinformer.Options{SyncPatience: -1, Initial: initial, OnError: reported.handle})
				defer r.run(i)()
				settle(time.Minute)
				require.False(r, i.HasSynced())
				require.Empty(r, i.Cache().RV())
				require.Zero(r, i.Cache().Len())
				decodeFailure(r, i.Status().Reflector, reported.heard())
				r.srv.Faults().Clear()
				require.NoError(r, i.WaitForSync(r.ctx))
				require.Equal(r, 3, i.Cache().Len())
			})
		})
	}
	t.Run("watch", func(t *testing.T) {
		inBubble(t, apiservertest.Options{}, func(r *rig) {
			r.fill(3)
			reported := &failures{}
			i := newInformer[T](from(r), sharedinformer.Options{OnError: reported.handle})
			var heard []string
			i.AddHandler(sharedinformer.HandlerFunc[T](func(_ context.Context, e sharedinformer.Event[T]) error {
				heard = append(heard, e.Type.String()+" "+e.Object.GetName())
				return nil
			}))
			stop := r.run(i)
			require.NoError(r, i.WaitForSync(r.ctx))
			synctest.Wait()
			heard = nil
			before := i.Status().Reflector.RV

			r.fault("watch", do)
			r.srv.Down()
			r.put(pod("pa", "n=1"))
			r.delete("pb")
			last := r.put(pod("pd"))
			settle(10 * time.Second)
			reported.heard()
			failuresBefore := i.Status().Reflector.Failures
			r.srv.Up()
			settle(20 * time.Second)
			status := i.Status()
			require.Equal(r, before, status.RV, "no further than what was applied")
			require.Equal(r, before, status.Reflector.RV)
			require.Empty(r, heard)
			all := reported.heard()
			require.NotEmpty(r, all)
			for n := range all {
				require.Contains(r, []failure.Phase{failure.PhaseDecode, failure.PhaseWatchOpen}, all[n].Phase)
			}
			require.Equal(r, failure.PhaseDecode, all[len(all)-1].Phase)
			require.EqualValues(r, len(all), status.Reflector.Failures-failuresBefore)

			r.srv.Faults().Clear()
			require.NoError(r, i.WaitForRV(r.ctx, last))
			synctest.Wait()
			require.Equal(r, []string{"update pa", "delete pb", "add pd"}, heard)
			require.Zero(r, i.Status().Reflector.Relists)
			stop()
		})
	})
}

// A single object that is too large for memory is rejected before it is read.
func TestL21_OversizedInputIsRefusedAndRequestedAgain(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb+" protobuf", func(t *testing.T) {
			oversized[*corev1.Pod](t, verb, func(r *rig) source.ListerWatcher { return rest.ResourceFor[*corev1.Pod](r.client).Source() })
		})
		t.Run(verb+" CBOR", func(t *testing.T) {
			oversized[*corev1.Pod](t, verb, podsInCBOR)
		})
	}
	t.Run("watch JSON", func(t *testing.T) {
		oversized[*unstructured.Unstructured](t, "watch", func(r *rig) source.ListerWatcher {
			return rest.ResourceForKind[*unstructured.Unstructured](r.client, podKind).Source()
		})
	})
}

func oversized[T object.Object](t *testing.T, verb string, from func(r *rig) source.ListerWatcher) {
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(2)
		r.once(verb, apiservertest.Oversize{Size: wire.DefaultMaxObjectBytes + 1<<20})
		reported := &failures{}
		opts := listing()
		opts.OnError = reported.handle
		i := newInformer[T](from(r), opts)
		defer r.run(i)()
		settle(100 * time.Millisecond)
		last := r.put(pod("pc")) // the first frame of a watch
		require.NoError(r, i.WaitForRV(r.ctx, last))
		require.Equal(r, 3, i.Cache().Len())
		all := reported.heard()
		require.Len(r, all, 1)
		require.Equal(r, failure.PhaseDecode, all[0].Phase)
		require.ErrorIs(r, &all[0], wire.ErrTooLarge)
	})
}

// script is a source with one object. Its watch sends the scripted frames.
type script struct {
	frames atomic.Pointer[[]wire.Event[object.Head]]
}

func (s *script) Describe() source.Description { return source.Description{Name: "pods"} }

func (s *script) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "7"}, Items: func(yield func(object.Head, error) bool) {
		p := pod("a")
		p.ResourceVersion = "7"
		yield(p, nil)
	}}
}

func (s *script) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		if frames := s.frames.Load(); frames != nil {
			for _, e := range *frames {
				if !yield(e, nil) {
					return
				}
			}
		}
		<-ctx.Done()
		yield(wire.Event[object.Head]{}, context.Cause(ctx))
	}, nil
}

// An event that can be decoded but not applied also holds the version back.
func TestL21_AnEventThatCannotBeAppliedHoldsTheVersionBack(t *testing.T) {
	at := func(name, rv string) *corev1.Pod {
		p := pod(name)
		p.ResourceVersion = rv
		return p
	}
	for name, e := range map[string]wire.Event[object.Head]{
		"no version":   {Type: watch.Modified, Object: at("a", "")},
		"unknown type": {Type: "ODD", Object: at("a", "8")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &script{}
				source.frames.Store(&[]wire.Event[object.Head]{e, {Type: watch.Added, Object: at("b", "9")}})
				reported := &failures{}
				opts := listing()
				opts.OnError = reported.handle
				i := sharedinformer.New[*corev1.Pod](source, opts)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				time.Sleep(time.Minute)
				require.Equal(t, "7", i.Cache().RV())
				require.Equal(t, []failure.Phase{failure.PhaseDecode}, distinct(phases(reported.heard())))
				source.frames.Store(&[]wire.Event[object.Head]{{Type: watch.Modified, Object: at("a", "8")}, {Type: watch.Added, Object: at("b", "9")}})
				require.NoError(t, i.WaitForRV(ctx, "9"))
				require.Equal(t, 2, i.Cache().Len())
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// A list without a version cannot be followed by a watch, so the informer does not sync.
func TestL21_AListWithoutAVersionIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &unversioned{}
		reported := &failures{}
		opts := listing()
		opts.OnError, opts.SyncPatience = reported.handle, -1
		i := sharedinformer.New[*corev1.Pod](source, opts)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- i.Run(ctx) }()
		require.ErrorIs(t, i.WaitForSync(ctx), reflector.ErrNoRV)
		require.NoError(t, <-ended)
		require.Zero(t, i.Cache().Len())
	})
}

type unversioned struct{ script }

func (u *unversioned) List(ctx context.Context, opts source.Request) source.List[object.Head] {
	list := u.script.List(ctx, opts)
	list.Meta = &metav1.ListMeta{}
	return list
}

var errTransform = errors.New("no such field")

var badTransforms = map[string]struct {
	do    func(*corev1.Pod) (*corev1.Pod, error)
	cause error
	text  string
}{
	"error":   {func(*corev1.Pod) (*corev1.Pod, error) { return nil, errTransform }, errTransform, "no such field"},
	"nil":     {func(*corev1.Pod) (*corev1.Pod, error) { return nil, nil }, reflector.ErrNilTransform, "returned nil"},
	"panic":   {func(*corev1.Pod) (*corev1.Pod, error) { panic("oh no") }, nil, "panicked: oh no"},
	"renamed": {func(p *corev1.Pod) (*corev1.Pod, error) { p.Name += "x"; return p, nil }, reflector.ErrTransformKey, "namespace or name"},
	"moved":   {func(p *corev1.Pod) (*corev1.Pod, error) { p.Namespace = ""; return p, nil }, reflector.ErrTransformKey, "namespace or name"},
}

// A failure of a transform is reported with the key of the object. Later versions do not count as seen,
// and nothing is lost once the transform works again.
func TestL21_ATransformThatFailsLosesNothing(t *testing.T) {
	for name, tc := range badTransforms {
		t.Run(name, func(t *testing.T) {
			whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
				r.fill(3)
				reported := &failures{}
				opts.OnError = reported.handle
				var broken atomic.Bool
				broken.Store(true)
				source := reflector.Transformed(rest.ResourceFor[*corev1.Pod](r.client).Source(), func(p *corev1.Pod) (*corev1.Pod, error) {
					if broken.Load() && p.Name == "pb" {
						return tc.do(p)
					}
					return p, nil
				})
				told := func() {
					r.Helper()
					all := reported.heard()
					require.NotEmpty(r, all)
					for n := range all {
						require.Equal(r, failure.PhaseTransform, all[n].Phase)
						require.Equal(r, object.Key{Namespace: "shop", Name: "pb"}, all[n].Key)
						require.Contains(r, all[n].Handler, "laws/badinput_test.go:")
						require.ErrorContains(r, &all[n], "): shop/pb: ")
						require.ErrorContains(r, &all[n], tc.text)
						if tc.cause != nil {
							require.ErrorIs(r, &all[n], tc.cause)
						}
					}
				}
				i := newInformer[*corev1.Pod](source, opts)
				h := record(r, i)
				i.AddHandler(h)
				defer r.run(i)()
				settle(20 * time.Second)
				require.False(r, i.HasSynced())
				require.Zero(r, i.Cache().Len())
				told()
				broken.Store(false)
				require.NoError(r, i.WaitForSync(r.ctx))
				require.Len(r, h.heard(), 3)

				broken.Store(true)
				before := i.Cache().RV()
				r.put(pod("pb", "n=1"))
				r.put(pod("pa", "n=1"))
				settle(20 * time.Second)
				told()
				require.Equal(r, before, i.Cache().RV())
				require.Equal(r, before, i.Status().Reflector.RV)
				require.Empty(r, h.heard())
				broken.Store(false)
				settle(time.Minute)
				require.Equal(r, []string{"update pb", "update pa"}, h.heard())
				r.inStep(i)
			})
		})
	}
}

// The informer restores the fields it needs when a transform removes them.
func TestL21_ATransformMayDropVersionAndUID(t *testing.T) {
	whichever(t, apiservertest.Options{}, func(r *rig, opts sharedinformer.Options) {
		r.fill(2)
		i := newInformer[*corev1.Pod](reflector.Transformed(rest.ResourceFor[*corev1.Pod](r.client).Source(), func(p *corev1.Pod) (*corev1.Pod, error) {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}, nil
		}), opts)
		h := record(r, i)
		i.AddHandler(h)
		defer r.run(i)()
		require.NoError(r, i.WaitForSync(r.ctx))
		h.heard()
		r.put(pod("pa", "n=1"))
		r.delete("pb")
		r.put(pod("pb"))
		require.Equal(r, []string{"update pa", "delete pb", "add pb"}, h.heard())
		r.inStep(i)
		require.Zero(r, i.Status().Reflector.Failures)
	})
}
