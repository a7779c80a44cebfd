package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

var (
	podKind    = object.GVK{Version: "v1", Kind: "Pod"}
	gizmoKind  = object.GVK{Group: "gizmo.example.com", Version: "v1", Kind: "Gizmo"}
	gizmoGroup = fakeGroup{name: "gizmo.example.com", versions: []fakeVersion{{"v1", []metav1.APIResource{
		{Name: "gizmos", SingularName: "gizmo", Kind: "Gizmo", Namespaced: true},
	}}}}
)

func TestMapperFindsWhatKubectlFinds(t *testing.T) {
	server := newFakeServer()
	server.groups = append(server.groups,
		// A group that serves a resource only in versions it does not prefer, before
		// one that prefers the resource's version.
		fakeGroup{name: "late.example.com", versions: []fakeVersion{
			{"v1", nil}, {"v1beta1", []metav1.APIResource{{Name: "parts", SingularName: "part", Kind: "Part"}}},
		}},
		fakeGroup{name: "parts.example.com", versions: []fakeVersion{
			{"v1", []metav1.APIResource{{Name: "parts", SingularName: "part", Kind: "Part"}}},
		}},
		// A resource whose plural is a short name of another, and a singular that is a
		// short name.
		fakeGroup{name: "zz.example.com", versions: []fakeVersion{{"v1", []metav1.APIResource{
			{Name: "hpa", SingularName: "hpas", Kind: "Strange"},
			{Name: "screws", SingularName: "sc", Kind: "Screw"},
			{Name: "widget", SingularName: "wid", Kind: "Wid"},
		}}}},
	)
	m := NewMapper(server.get, nil)
	cases := []struct{ ask, want string }{
		{"pods", "/v1 pods"},
		{"pod", "/v1 pods"},
		{"po", "/v1 pods"},
		{"Pod", "/v1 pods"},
		{"PODS", "/v1 pods"},
		{"pods.v1", "/v1 pods"},
		{"pods.metrics.k8s.io", "metrics.k8s.io/v1beta1 pods"},
		{"pods.v1beta1", "metrics.k8s.io/v1beta1 pods"},
		{"podmetrics", "metrics.k8s.io/v1beta1 pods"},
		{"deploy", "apps/v1 deployments"},
		{"deployments.v1.apps", "apps/v1 deployments"},
		{"Deployment.apps", "apps/v1 deployments"},
		{"deploy.app", "apps/v1 deployments"},
		{"storageclass.storage", "storage.k8s.io/v1 storageclasses"},
		{"ev", "/v1 events"},
		{"ev.events", "events.k8s.io/v1 events"},
		{"events.events.k8s.io", "events.k8s.io/v1 events"},
		{"horizontalpodautoscalers", "autoscaling/v2 horizontalpodautoscalers"},
		{"horizontalpodautoscaler.v1.autoscaling", "autoscaling/v1 horizontalpodautoscalers"},
		{"widgets", "example.com/v1 widgets"},
		{"widgets.v2alpha1.example.com", "example.com/v2alpha1 widgets"},
		{"gadgets", "example.com/v2alpha1 gadgets"},
		{"parts", "parts.example.com/v1 parts"},
		{"parts.late", "late.example.com/v1beta1 parts"},
		{"hpa", "zz.example.com/v1 hpa"},
		{"hpa.autoscaling", "autoscaling/v2 horizontalpodautoscalers"},
		{"widget", "example.com/v1 widgets"},
		{"sc", "storage.k8s.io/v1 storageclasses"},
	}
	for _, tc := range cases {
		gvr, err := object.ParseResourceArg(tc.ask)
		require.NoError(t, err)
		got, err := m.MappingForResource(t.Context(), gvr)
		if assert.NoError(t, err, tc.ask) {
			assert.Equal(t, tc.want, fmt.Sprintf("%s/%s %s", got.Resource.Group, got.Resource.Version, got.Resource.Resource), tc.ask)
		}
	}
	assert.Equal(t, 1, server.count(groupsRoot), "requests for all of it")
}

func TestMapperMapsKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMapper(newFakeServer().get, nil)
		for _, tc := range []struct {
			ask  object.GVK
			want object.GVR
		}{
			{podKind, object.GVR{Version: "v1", Resource: "pods"}},
			{object.GVK{Kind: "Pod"}, object.GVR{Version: "v1", Resource: "pods"}},
			{object.GVK{Group: "example.com", Kind: "Widget"}, object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}},
			{object.GVK{Group: "example.com", Version: "v2alpha1", Kind: "Widget"}, object.GVR{Group: "example.com", Version: "v2alpha1", Resource: "widgets"}},
			{object.GVK{Group: "example.com", Kind: "Gadget"}, object.GVR{Group: "example.com", Version: "v2alpha1", Resource: "gadgets"}},
		} {
			got, err := m.MappingForKind(t.Context(), tc.ask)
			require.NoError(t, err, tc.ask)
			assert.Equal(t, tc.want, got.Resource, tc.ask)
			assert.Equal(t, tc.ask.GroupKind(), got.Kind.GroupKind())
		}
		// An exact lookup gets no approximate result.
		for _, gvk := range []object.GVK{
			{Version: "v1", Kind: "pod"}, {Version: "v1", Kind: "Deployment"},
			{Group: "example", Version: "v1", Kind: "Widget"}, {Version: "v2", Kind: "Pod"}, {Group: "autoscaling", Version: "v1", Kind: "Scale"},
		} {
			_, err := m.MappingForKind(t.Context(), gvk)
			assert.True(t, meta.IsNoMatchError(err), "%v: %v", gvk, err)
		}
		_, err := m.MappingForKind(t.Context(), object.GVK{Version: "v1"})
		assert.ErrorContains(t, err, "no kind")
	})
}

func TestMapperMappingsListsEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		for range 3 {
			all, err := m.Mappings(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 12)
			assert.Equal(t, "namespaces", all[0].Resource.Resource)
			assert.Equal(t, "gadgets", all[11].Resource.Resource)
		}
		assert.Equal(t, 1, server.count(groupsRoot))

		server.fail["/apis/metrics.k8s.io/v1beta1"] = unavailable("metrics")
		m.Invalidate()
		all, err := m.Mappings(t.Context())
		assert.Len(t, all, 12)
		assert.ErrorContains(t, err, "metrics.k8s.io/v1beta1")
	})
}

func TestMapperAmbiguity(t *testing.T) {
	server := newFakeServer()
	server.groups = append(server.groups, fakeGroup{name: "twin.example.com", versions: []fakeVersion{{"v1", []metav1.APIResource{
		{Name: "ones", SingularName: "one", Kind: "One", ShortNames: []string{"tw"}},
		{Name: "twos", SingularName: "two", Kind: "Two", ShortNames: []string{"tw"}},
		{Name: "requests", SingularName: "request", Kind: "One"},
		{Name: "lefts", Kind: "Hand"},
		{Name: "rights", Kind: "Hand"},
	}}}})
	m := NewMapper(server.get, nil)

	_, err := m.MappingForResource(t.Context(), object.GVR{Resource: "tw"})
	assert.True(t, meta.IsAmbiguousError(err), "%v", err)
	assert.EqualError(t, err, `resource "tw" is ambiguous: specify one of the resources ones.twin.example.com, twos.twin.example.com`)

	_, err = m.MappingForKind(t.Context(), object.GVK{Group: "twin.example.com", Version: "v1", Kind: "Hand"})
	assert.True(t, meta.IsAmbiguousError(err), "%v", err)
	var ambiguous *AmbiguousError
	require.ErrorAs(t, err, &ambiguous)
	assert.Len(t, ambiguous.Candidates, 2)

	// A resource named after the kind is preferred.
	one, err := m.MappingForKind(t.Context(), object.GVK{Group: "twin.example.com", Version: "v1", Kind: "One"})
	require.NoError(t, err)
	assert.Equal(t, "ones", one.Resource.Resource)
}

func TestMapperLearnsANewKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		_, err := m.MappingForKind(t.Context(), podKind)
		require.NoError(t, err)
		server.set(func(s *fakeServer) { s.groups = append(s.groups, gizmoGroup) })

		// It waits until it may ask the server instead of returning an outdated result.
		start := time.Now()
		got, err := m.MappingForKind(t.Context(), gizmoKind)
		require.NoError(t, err)
		assert.Equal(t, "gizmos", got.Resource.Resource)
		assert.Equal(t, minRediscovery, time.Since(start))
		assert.Equal(t, 2, server.count(groupsRoot))
	})
}

func TestMapperDoesNotWaitWhenItHasJustAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		start := time.Now()
		_, err := NewMapper(server.get, nil).MappingForKind(t.Context(), gizmoKind)
		assert.True(t, meta.IsNoMatchError(err), "%v", err)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, server.count(groupsRoot), "a catalog that is new need not be read again")
	})
}

// Continuous lookups of a missing kind cause runs at 0, 1, 3, 7 and 15 seconds, then
// every 10.
func TestMapperMakesNoDiscoveryStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		start := time.Now()
		asked := 0
		for time.Since(start) < 100*time.Second {
			_, err := m.MappingForKind(t.Context(), gizmoKind)
			require.True(t, meta.IsNoMatchError(err), "%v", err)
			asked++
			time.Sleep(10 * time.Millisecond)
		}
		assert.Greater(t, asked, 9000, "answers come at once")
		var at []time.Duration
		for _, call := range server.started[groupsRoot] {
			at = append(at, call.Sub(start))
		}
		s := time.Second
		assert.Equal(t, []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 25 * s, 35 * s, 45 * s, 55 * s, 65 * s, 75 * s, 85 * s, 95 * s}, at)

		// Other lookups are not affected by that back-off.
		server.set(func(s *fakeServer) { s.groups = append(s.groups, gizmoGroup) })
		_, err := m.MappingForResource(t.Context(), object.GVR{Resource: "gizmos"})
		require.NoError(t, err)
		// All callers get the result.
		_, err = m.MappingForKind(t.Context(), gizmoKind)
		require.NoError(t, err)
		assert.Equal(t, len(at)+1, server.count(groupsRoot))
	})
}

func TestMapperForgetsTheBackoffOfUnusedQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		miss := func() {
			_, err := m.MappingForKind(t.Context(), gizmoKind)
			require.True(t, meta.IsNoMatchError(err), "%v", err)
		}
		miss()
		time.Sleep(time.Second)
		miss() // the back-off is now two seconds
		time.Sleep(2*time.Second + maxRediscovery)
		miss()
		time.Sleep(time.Second)
		miss()
		assert.Equal(t, 4, server.count(groupsRoot))
	})
}

// Different unsuccessful lookups, one after another, cause at most one run a second,
// however long their back-offs are.
func TestMapperPacesRunsForDifferentQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.groups = server.groups[:1]
		m := NewMapper(server.get, nil)
		start := time.Now()
		for i := range maxMisses + 10 {
			_, err := m.MappingForResource(t.Context(), object.GVR{Resource: fmt.Sprintf("unknown%d", i)})
			require.True(t, meta.IsNoMatchError(err), "%v", err)
		}
		assert.Equal(t, time.Duration(maxMisses+9)*minRediscovery, time.Since(start))
		assert.LessOrEqual(t, len(m.misses), maxMisses)
	})
}

func TestMapperCallersShareARun(t *testing.T) {
	for name, change := range map[string]func(*fakeServer){
		"that succeeds": func(*fakeServer) {},
		"that fails": func(s *fakeServer) {
			s.fail[coreRoot], s.fail[groupsRoot] = errors.New("connection refused"), errors.New("connection refused")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				server.latency = 500 * time.Millisecond
				change(server)
				m := NewMapper(server.get, nil)
				start := time.Now()
				var callers sync.WaitGroup
				for i := range 100 {
					callers.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						_, err := m.MappingForKind(t.Context(), podKind)
						if len(server.fail) > 0 {
							assert.ErrorContains(t, err, "connection refused")
							assert.False(t, meta.IsNoMatchError(err))
						} else {
							assert.NoError(t, err)
						}
					})
				}
				callers.Wait()
				assert.Equal(t, server.latency, time.Since(start))
				assert.Equal(t, 1, server.count(groupsRoot))
			})
		})
	}
}

func TestMapperCallersWhoMissShareARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		_, err := m.MappingForKind(t.Context(), podKind)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		server.set(func(s *fakeServer) { s.latency = time.Second })
		var callers sync.WaitGroup
		for i := range 100 {
			callers.Go(func() {
				kind := gizmoKind
				kind.Kind = fmt.Sprintf("Gizmo%d", i%3)
				_, err := m.MappingForKind(t.Context(), kind)
				assert.True(t, meta.IsNoMatchError(err), "%v", err)
			})
		}
		callers.Wait()
		assert.Equal(t, 2, server.count(groupsRoot))
		for q, miss := range m.misses {
			assert.Equal(t, minRediscovery, miss.wait, "%v: a shared run counts once", q)
		}
	})
}

func TestMapperWaitingCallerReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.latency = 20 * time.Second
		m := NewMapper(server.get, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		var callers sync.WaitGroup
		// One caller runs discovery, one waits for it; later comes a patient one.
		for range 2 {
			callers.Go(func() {
				_, err := m.MappingForKind(ctx, podKind)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.False(t, meta.IsNoMatchError(err))
				assert.Equal(t, 5*time.Second, time.Since(start))
			})
		}
		callers.Go(func() {
			time.Sleep(time.Second)
			_, err := m.MappingForKind(t.Context(), podKind)
			assert.NoError(t, err, "the end of another caller's context is not its own")
			assert.Equal(t, 25*time.Second, time.Since(start))
		})
		callers.Wait()

		// Nor does a caller wait for the minimum time between runs.
		ctx, cancel = context.WithTimeout(t.Context(), minRediscovery/2)
		defer cancel()
		start = time.Now()
		_, err := m.MappingForKind(ctx, gizmoKind)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, minRediscovery/2, time.Since(start))
		calls := server.count(groupsRoot)
		time.Sleep(time.Minute)
		_, err = m.MappingForKind(ctx, gizmoKind)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, calls, server.count(groupsRoot), "no request for a caller who is gone")
	})
}

// A request without a response ends at the time limit of the run. The result of the
// other root counts, and the next run tries again.
func TestMapperAbortsARequestThatIsNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		lost := false
		m := NewMapper(func(ctx context.Context, path, accept string) ([]byte, string, error) {
			if path == groupsRoot && !lost {
				lost = true
				<-ctx.Done()
				return nil, "", context.Cause(ctx)
			}
			return server.get(ctx, path, accept)
		}, nil)
		start := time.Now()
		ended := make(chan error)
		go func() {
			_, err := m.MappingForKind(t.Context(), object.GVK{Group: "apps", Version: "v1", Kind: "Deployment"})
			ended <- err
		}()
		err := <-ended
		assert.Equal(t, maxRun, time.Since(start))
		assert.ErrorIs(t, err, errSlow)
		assert.False(t, meta.IsNoMatchError(err), "silence proves nothing: %v", err)

		_, err = m.MappingForKind(t.Context(), podKind)
		assert.NoError(t, err, "the core group answered")
		time.Sleep(minRediscovery)
		_, err = m.MappingForKind(t.Context(), object.GVK{Group: "apps", Version: "v1", Kind: "Deployment"})
		assert.NoError(t, err)
	})
}

func TestMapperFailureIsRetriedAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		refused := errors.New("connection refused")
		server.fail[coreRoot], server.fail[groupsRoot] = refused, refused
		for range 10 {
			_, err := m.MappingForKind(t.Context(), podKind)
			require.ErrorIs(t, err, refused)
		}
		assert.Equal(t, 1, server.count(groupsRoot), "within the second the reason is known")
		clear(server.fail)
		time.Sleep(minRediscovery)
		_, err := m.MappingForKind(t.Context(), podKind)
		require.NoError(t, err)

		// If the server is unreachable, known results stay available, but nothing is
		// reported as missing.
		server.fail[coreRoot], server.fail[groupsRoot] = refused, refused
		_, err = m.MappingForKind(t.Context(), gizmoKind)
		assert.ErrorIs(t, err, refused)
		assert.False(t, meta.IsNoMatchError(err))
		_, err = m.MappingForKind(t.Context(), podKind)
		assert.NoError(t, err)
	})
}

func TestMapperInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.groups = append(server.groups, gizmoGroup)
		m := NewMapper(server.get, nil)
		_, err := m.MappingForKind(t.Context(), gizmoKind)
		require.NoError(t, err)
		server.groups = server.groups[:len(server.groups)-1]
		_, err = m.MappingForKind(t.Context(), gizmoKind)
		require.NoError(t, err, "what goes away is not noticed by itself")

		m.Invalidate()
		_, err = m.MappingForKind(t.Context(), gizmoKind)
		assert.True(t, meta.IsNoMatchError(err), "%v", err)
		assert.Equal(t, 2, server.count(groupsRoot))

		start := time.Now()
		for range 10 {
			m.Invalidate()
			_, err = m.MappingForKind(t.Context(), podKind)
			require.NoError(t, err)
		}
		assert.Equal(t, 10*minRediscovery, time.Since(start), "one run a second at most")
	})
}

// A run in progress when Invalidate was called may have read the server before the
// change that was the reason for the call.
func TestMapperInvalidateDuringARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.latency = 10 * time.Second
		m := NewMapper(server.get, nil)
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := m.MappingForKind(t.Context(), podKind)
			assert.NoError(t, err)
		})
		synctest.Wait()
		m.Invalidate()
		callers.Go(func() {
			_, err := m.MappingForKind(t.Context(), podKind)
			assert.NoError(t, err)
		})
		callers.Wait()
		assert.Equal(t, 2, server.count(groupsRoot))
	})
}

func TestMapperKeepsTheResourcesOfAGroupThatIsDown(t *testing.T) {
	metrics := object.GVK{Group: "metrics.k8s.io", Version: "v1beta1", Kind: "PodMetrics"}
	for name, tc := range map[string]struct {
		path string
		kind object.GVK
	}{
		"one group version": {"/apis/metrics.k8s.io/v1beta1", metrics},
		"all groups":        {groupsRoot, metrics},
		"the core group":    {coreRoot, podKind},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newFakeServer()
				server.classic[groupsRoot] = true
				m := NewMapper(server.get, nil)
				before, err := m.Mappings(t.Context())
				require.NoError(t, err)
				server.fail[tc.path] = unavailable(name)
				m.Invalidate()
				after, err := m.Mappings(t.Context())
				var failed *Error
				require.ErrorAs(t, err, &failed)
				assert.Equal(t, tc.path, failed.Failures[0].Path)
				assert.Equal(t, before, after)
				_, err = m.MappingForKind(t.Context(), tc.kind)
				assert.NoError(t, err)
			})
		})
	}
}

func TestMapperTrustsAServerThatSaysAGroupIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.classic[groupsRoot] = true
		m := NewMapper(server.get, nil)
		_, err := m.Mappings(t.Context())
		require.NoError(t, err)
		// The group is still listed, but its resources are not found any more.
		server.fail["/apis/apps/v1"] = apierrors.NewNotFound(schema.GroupResource{}, "")
		m.Invalidate()
		all, err := m.Mappings(t.Context())
		assert.ErrorContains(t, err, "apps/v1")
		assert.Len(t, all, 11)
	})
}

// The server's stale document of a group is newer than ours.
func TestMapperPrefersAStaleDocumentToItsOwnMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		_, err := m.Mappings(t.Context())
		require.NoError(t, err)
		metrics := &server.groups[5].versions[0]
		metrics.resources = append(metrics.resources, metav1.APIResource{Name: "nodes", Kind: "NodeMetrics"})
		server.fail["/apis/metrics.k8s.io/v1beta1"] = unavailable("metrics")
		m.Invalidate()
		all, err := m.Mappings(t.Context())
		assert.ErrorContains(t, err, "metrics.k8s.io/v1beta1")
		assert.Len(t, all, 13)
	})
}

// A kind is not reported as missing if its group could not be discovered.
func TestMapperGroupThatIsDownIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		server.classic[groupsRoot] = true
		server.fail["/apis/metrics.k8s.io/v1beta1"] = unavailable("metrics")
		m := NewMapper(server.get, nil)
		_, err := m.MappingForKind(t.Context(), object.GVK{Group: "metrics.k8s.io", Version: "v1beta1", Kind: "PodMetrics"})
		assert.False(t, meta.IsNoMatchError(err), "%v", err)
		assert.ErrorContains(t, err, "look up kind PodMetrics in metrics.k8s.io/v1beta1: discovery failed for metrics.k8s.io/v1beta1: ")
		var failed *Error
		assert.ErrorAs(t, err, &failed)

		for _, q := range []question{{kind: gizmoKind}, {resource: object.GVR{Resource: "gizmos"}},
			{kind: object.GVK{Group: "metrics.k8s.io", Version: "v1", Kind: "PodMetrics"}}} {
			_, err = m.one(t.Context(), q)
			assert.True(t, meta.IsNoMatchError(err), "%s: %v", q, err)
			assert.ErrorContains(t, err, "it may be hidden: discovery failed for metrics.k8s.io/v1beta1")
			_, status := errors.AsType[*apierrors.StatusError](err)
			assert.False(t, status, "the status of another group is taken for that of %s", q)
		}
	})
}

func TestNoMatchErrorHelps(t *testing.T) {
	m := NewMapper(newFakeServer().get, nil)
	const see = `; "kubectl api-resources" lists what is served`
	cases := []struct{ ask, want string }{
		{"depolyments.apps", `the server does not serve resource "depolyments.apps" (did you mean deployments.apps?)` + see},
		{"deploymnt", `the server does not serve resource "deploymnt" (did you mean deployments.apps?)` + see},
		{"pods.apps", `the server does not serve resource "pods.apps" (did you mean pods or pods.metrics.k8s.io?)` + see},
		{"deployments.v1beta1.apps", `the server does not serve resource "deployments.v1beta1.apps" (did you mean deployments.v1.apps?)` + see},
		{"hpa.v3", `the server does not serve resource "hpa.v3" (did you mean horizontalpodautoscalers.v2.autoscaling or horizontalpodautoscalers.v1.autoscaling?)` + see},
		{"podz", `the server does not serve resource "podz" (did you mean pods or pods.metrics.k8s.io?)` + see},
		{"certificates.cert-manager.io", `the server does not serve resource "certificates.cert-manager.io"` + see},
	}
	for _, tc := range cases {
		gvr, err := object.ParseResourceArg(tc.ask)
		require.NoError(t, err)
		m := NewMapper(newFakeServer().get, nil)
		_, err = m.MappingForResource(t.Context(), gvr)
		assert.EqualError(t, err, tc.want)
		noResource := new(meta.NoResourceMatchError)
		if assert.ErrorAs(t, err, &noResource) {
			assert.Equal(t, gvr, noResource.PartialResource)
		}
	}
	_, err := m.MappingForKind(t.Context(), object.GVK{Group: "app", Version: "v1", Kind: "Deployment"})
	assert.EqualError(t, err, "the server does not serve kind Deployment in app/v1 (did you mean Deployment in apps/v1?)"+see)
	noKind := new(meta.NoKindMatchError)
	if assert.ErrorAs(t, err, &noKind) {
		assert.Equal(t, []string{"v1"}, noKind.SearchedVersions)
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "pod", 3}, {"pod", "", 3}, {"pod", "pods", 1}, {"pdo", "pod", 1},
		{"depolyments", "deployments", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		assert.Equal(t, tc.want, distance(tc.a, tc.b), "%q %q", tc.a, tc.b)
		assert.Equal(t, tc.want, distance(tc.b, tc.a), "%q %q", tc.b, tc.a)
	}
}

func TestMapperWarnsOnceAboutAGroupThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		server := newFakeServer()
		server.fail["/apis/metrics.k8s.io/v1beta1"] = unavailable("metrics")
		m := NewMapper(server.get, slog.New(slog.NewTextHandler(&logged, nil)))
		for range 3 {
			_, err := m.MappingForKind(t.Context(), podKind)
			require.NoError(t, err)
			m.Invalidate()
		}
		assert.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), logged.String())
		assert.Contains(t, logged.String(), "metrics.k8s.io/v1beta1")
	})
}

func TestRESTMapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newFakeServer()
		m := NewMapper(server.get, nil)
		mapper := m.RESTMapper(t.Context())

		kind, err := mapper.KindFor(object.GVR{Resource: "deploy"})
		require.NoError(t, err)
		assert.Equal(t, object.GVK{Group: "apps", Version: "v1", Kind: "Deployment"}, kind)
		kinds, err := mapper.KindsFor(object.GVR{Resource: "pods", Version: "__internal"})
		require.NoError(t, err)
		assert.Equal(t, []object.GVK{podKind, {Group: "metrics.k8s.io", Version: "v1beta1", Kind: "PodMetrics"}}, kinds)
		resource, err := mapper.ResourceFor(object.GVR{Resource: "Widget"})
		require.NoError(t, err)
		assert.Equal(t, object.GVR{Group: "example.com", Version: "v1", Resource: "widgets"}, resource)
		resources, err := mapper.ResourcesFor(object.GVR{Resource: "hpa"})
		require.NoError(t, err)
		assert.Len(t, resources, 2)
		singular, err := mapper.ResourceSingularizer("storageclasses")
		require.NoError(t, err)
		assert.Equal(t, "storageclass", singular)

		widget := object.GVK{Group: "example.com", Kind: "Widget"}.GroupKind()
		mapping, err := mapper.RESTMapping(widget)
		require.NoError(t, err)
		assert.Equal(t, "v1", mapping.GroupVersionKind.Version)
		assert.Equal(t, meta.RESTScopeNameNamespace, mapping.Scope.Name())
		mapping, err = mapper.RESTMapping(widget, "v9", "v2alpha1", "v1")
		require.NoError(t, err)
		assert.Equal(t, "v2alpha1", mapping.GroupVersionKind.Version)
		mappings, err := mapper.RESTMappings(widget)
		require.NoError(t, err)
		assert.Len(t, mappings, 2)
		assert.Equal(t, 1, server.count(groupsRoot), "one of the versions is known: no need to ask for v9")

		_, err = mapper.RESTMapping(widget, "v9")
		assert.True(t, meta.IsNoMatchError(err), "%v", err)
		_, err = mapper.RESTMappings(gizmoKind.GroupKind())
		assert.True(t, meta.IsNoMatchError(err), "%v", err)
		_, err = mapper.ResourceFor(object.GVR{Resource: "gizmos"})
		assert.True(t, meta.IsNoMatchError(err), "%v", err)
		server.set(func(s *fakeServer) { s.groups = append(s.groups, gizmoGroup) })
		mapper.(meta.ResettableRESTMapper).Reset()
		_, err = mapper.RESTMapping(gizmoKind.GroupKind(), "v1")
		assert.NoError(t, err)
	})
}

func ExampleMapper_MappingForResource() {
	mapper := NewMapper(newFakeServer().get, nil)
	for _, arg := range []string{"depolyments", "deploy", "widgets.v2alpha1.example.com"} {
		gvr, err := object.ParseResourceArg(arg)
		if err != nil {
			fmt.Println(err)
			continue
		}
		mapping, err := mapper.MappingForResource(context.Background(), gvr)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(mapping.Kind, mapping.Namespaced)
	}
	// Output:
	// the server does not serve resource "depolyments" (did you mean deployments.apps?); "kubectl api-resources" lists what is served
	// apps/v1, Kind=Deployment true
	// example.com/v2alpha1, Kind=Widget true
}

func BenchmarkMapperHit(b *testing.B) {
	m := NewMapper(newFakeServer().get, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.MappingForKind(b.Context(), podKind); err != nil {
			b.Fatal(err)
		}
	}
}
