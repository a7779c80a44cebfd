package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// tap records the queries of a client's requests, and the media types of the answers.
type tap struct {
	mu      sync.Mutex
	queries []url.Values
	media   map[string]bool // of lists and watches
}

func (l *tap) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queries = append(l.queries, r.URL.Query())
		if err == nil && strings.HasSuffix(r.URL.Path, "/configmaps") {
			l.media[resp.Header.Get("Content-Type")] = true
		}
		return resp, err
	})
}

// formats returns the content types of lists and watches.
func (l *tap) formats() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.media))
}

// count returns how many requests had all of the parameters.
func (l *tap) count(want map[string]string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, q := range l.queries {
		all := true
		for key, value := range want {
			all = all && q.Get(key) == value
		}
		if all {
			n++
		}
	}
	return n
}

// TestInitialModes reads the initial state in every mode, and checks the requests.
func TestInitialModes(t *testing.T) {
	client, ns := admin(t)
	for n := range 25 {
		_, err := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns).Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	stream := map[string]string{"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
	cached := map[string]string{"watch": "", "resourceVersion": "0"}
	page := map[string]string{"watch": "", "limit": "10", "resourceVersion": ""}
	for _, tc := range []struct {
		name                   string
		initial                reflector.Initial
		pageSize               int64
		streams, cached, pages int
		watches                uint64
	}{
		{"auto", reflector.Auto, 0, 1, 0, 0, 1},
		{"watchlist", reflector.WatchList, 0, 1, 0, 0, 1},
		{"list", reflector.List, 0, 0, 1, 0, 1},
		{"list in pages", reflector.List, 10, 0, 0, 3, 1},
		{"auto in pages", reflector.Auto, 10, 0, 0, 3, 1},
	} {
		for _, form := range []string{"typed", "unstructured", "metadata", "typed in CBOR", "unstructured in CBOR", "metadata in CBOR"} {
			t.Run(tc.name+"/"+form, func(t *testing.T) {
				cfg, seen := loadConfig(t, shared, "admin"), &tap{media: map[string]bool{}}
				cfg.WrapTransport = seen.wrap
				opts := sharedinformer.Options{}
				opts.Initial, opts.PageSize = tc.initial, tc.pageSize
				form, cfg.CBOR = strings.CutSuffix(form, " in CBOR")
				client, media := newClient(t, cfg), wire.MediaProtobuf
				kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
				switch form {
				case "typed":
					initialMode(t, rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns), opts, tc.watches)
				case "unstructured":
					initialMode(t, rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns), opts, tc.watches)
					media = wire.MediaJSON
				case "metadata":
					initialMode(t, rest.ResourceForKind[*metav1.PartialObjectMetadata](client, kind).Namespace(ns), opts, tc.watches)
				}
				if cfg.CBOR {
					media = wire.MediaCBOR + "(-seq)?"
				}
				for _, got := range seen.formats() {
					require.Regexp(t, "^"+media+"(;stream=watch)?$", got)
				}
				require.Equal(t, tc.streams, seen.count(stream))
				require.Equal(t, tc.cached, seen.count(cached))
				require.Equal(t, tc.pages, seen.count(page))
			})
		}
	}
}

func initialMode[T object.Object](t *testing.T, source reads[T], opts sharedinformer.Options, watches uint64) {
	t.Helper()
	f := follow(t, source, opts)
	f.sync()
	f.awaitStatus("the watch", func(s sharedinformer.Status) bool {
		return s.Reflector.State == reflector.Watching && s.Reflector.Watches > 0
	})
	f.agree()
	s := f.Status().Reflector
	require.Equal(t, counts{initial: 25, added: 25}, f.calls())
	require.Equal(t, []uint64{1, 0, watches, 0, 0}, []uint64{s.Lists, s.Relists, s.Watches, s.Failures, s.Events}, "%s", f)
}

// TestScopes runs several informers of one type side by side in one factory.
func TestScopes(t *testing.T) {
	client, here := admin(t)
	there := newNamespace(t, client)
	pods := rest.ResourceFor[*corev1.Pod](client)
	f := factory.New(client, factory.Options{})
	scopes := []factory.Scope{
		{Namespaces: []string{here}},
		{Namespaces: []string{there}},
		{Namespaces: []string{here}, Labels: parseLabels(t, "app in (a,b),!hidden")},
		{Namespaces: []string{here}, Fields: fields.ParseSelectorOrDie("status.phase=Running")},
		{Namespaces: []string{here}, Labels: parseLabels(t, "app"), Fields: fields.ParseSelectorOrDie("metadata.name!=b")},
		{Labels: parseLabels(t, "e2e="+here)},
	}
	var all []*follower[*corev1.Pod]
	for _, scope := range scopes {
		opts := sharedinformer.Options{}
		opts.LabelSelector, opts.FieldSelector = scope.Labels, scope.Fields
		i := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: scope})
		require.Same(t, i, factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: scope}), "one informer for one scope")
		all = append(all, attach(t, i, pods.Namespace(strings.Join(scope.Namespaces, "")), opts))
	}
	create := func(ns, name string) {
		t.Helper()
		p := newPod(name)
		p.Namespace, p.Labels = ns, map[string]string{"app": name, "e2e": here}
		_, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	create(here, "a")
	create(there, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Wait()
	defer cancel()
	f.Start(ctx)
	within, stop := context.WithTimeout(ctx, deadline)
	defer stop()
	require.NoError(t, f.WaitForSync(within))

	create(here, "b")
	create(here, "c")
	create(there, "b")
	patch(t, pods.Subresource("status"), here, "a", `{"status":{"phase":"Running"}}`) // enters the field selector
	patch(t, pods.Subresource("status"), here, "b", `{"status":{"phase":"Running"}}`)
	patch(t, pods.Subresource("status"), here, "b", `{"status":{"phase":"Failed"}}`) // and leaves it
	patch(t, pods, here, "a", `{"metadata":{"labels":{"hidden":"yes"}}}`)            // leaves the label selector
	patch(t, pods, here, "a", `{"metadata":{"labels":{"hidden":null}}}`)             // and comes back
	patch(t, pods, here, "c", `{"metadata":{"labels":{"app":null}}}`)
	require.NoError(t, pods.Delete(t.Context(), object.Key{Namespace: there, Name: "a"}, metav1.DeleteOptions{}))
	for _, i := range all {
		i.agree()
	}
	for n, want := range []counts{
		{initial: 1, added: 3},
		{initial: 1, added: 2, deleted: 1},
		{initial: 1, added: 3, deleted: 1},
		{added: 2, deleted: 1},
		{initial: 1, added: 2, deleted: 1},
		{initial: 2, added: 5, deleted: 1},
	} {
		got := all[n].calls()
		got.updated = 0 // a pod's deletion, for example, begins with an update
		require.Equal(t, want, got, "%s", scopes[n])
	}
	for _, s := range f.Status() {
		require.Zero(t, s.Reflector.Failures, "%+v", s)
	}
}

func parseLabels(t *testing.T, s string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse(s)
	require.NoError(t, err)
	return selector
}

func patch[T object.Object](t *testing.T, r *rest.Resource[T], ns, name, merge string) {
	t.Helper()
	_, err := r.Patch(t.Context(), object.Key{Namespace: ns, Name: name}, types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	require.NoError(t, err)
}

// TestLateHandler adds a handler while changes arrive, and removes it.
func TestLateHandler(t *testing.T) {
	client, ns := admin(t)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	early := follow(t, maps, sharedinformer.Options{})
	early.sync()
	var late []*follower[*corev1.ConfigMap]
	for n := range 300 {
		_, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
		if n%30 == 0 {
			late = append(late, attach(t, early.Informer, maps, sharedinformer.Options{}))
			if n%60 == 0 {
				patch(t, maps, ns, name(n/2), fmt.Sprintf(`{"data":{"late":"%d"}}`, n))
			}
		}
	}
	early.agree()
	for _, l := range late {
		l.agree()
		require.Equal(t, 300, l.calls().added)
	}
	require.Len(t, early.Status().Handlers, 11)
	require.NoError(t, early.WaitForRV(t.Context(), rvOf(early.Cache().Get(object.Key{Namespace: ns, Name: name(299)}))))
}
