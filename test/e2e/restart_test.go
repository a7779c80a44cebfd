package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// brisk is a back-off for servers that are back soon.
var brisk = reflector.Backoff{Initial: 20 * time.Millisecond, Max: 200 * time.Millisecond}

// TestServerKilled kills the server while informers run and starts it again, twice: once without
// further changes, once with changes. At the end it is shut down gracefully and started again.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	// The server also asks clients to reconnect with one request in fifty, as servers behind a load
	// balancer do.
	srv := envtest.Start(t, envtest.Options{Flags: []string{"--goaway-chance=0.02"}})
	client := connect(t, srv, "admin")
	ns := newNamespace(t, client)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	opts := sharedinformer.Options{}
	opts.Timing.Backoff = brisk
	watched := follow(t, maps, opts)
	watched.sync()
	for n := range 500 {
		_, err := maps.Create(t.Context(), configMap(n%100), metav1.CreateOptions{})
		require.NoError(t, err)
		if n < 400 {
			require.NoError(t, maps.Delete(t.Context(), object.Key{Name: name(n % 100)}, metav1.DeleteOptions{}))
		}
	}
	watched.agree()
	require.Zero(t, watched.Status().Reflector.Failures, "%s", watched)
	f := follow(t, maps, opts)
	pods := follow(t, rest.ResourceFor[*corev1.Pod](client).Namespace(ns), opts)
	f.sync()
	pods.sync()
	kept, ok := f.Cache().Get(object.Key{Namespace: ns, Name: name(7)})
	require.True(t, ok)

	kill(t, srv, f)
	require.NoError(t, srv.Restart(t.Context()))
	_, err := maps.Create(t.Context(), configMap(100), metav1.CreateOptions{})
	require.NoError(t, err)
	f.agree()

	kill(t, srv, f)
	require.NoError(t, srv.Restart(t.Context()))
	for n := range 5 {
		require.NoError(t, maps.Delete(t.Context(), object.Key{Name: name(n)}, metav1.DeleteOptions{}))
	}
	_, err = maps.Create(t.Context(), configMap(0), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = rest.ResourceFor[*corev1.Pod](client).Namespace(ns).Create(t.Context(), newPod("p"), metav1.CreateOptions{})
	require.NoError(t, err)
	f.agree()
	pods.agree()

	require.NoError(t, srv.Restart(t.Context()))
	_, err = maps.Create(t.Context(), configMap(1), metav1.CreateOptions{})
	require.NoError(t, err)
	f.agree()
	pods.agree()

	calls := f.calls()
	require.Equal(t, counts{initial: 100, added: 103, updated: 0, deleted: 5, unknown: calls.unknown}, calls, "exactly the difference")
	now, ok := f.Cache().Get(object.Key{Namespace: ns, Name: name(7)})
	require.True(t, ok)
	require.Same(t, kept, now, "what did not change is still the same object")
	require.LessOrEqual(t, f.Status().Reflector.Relists, uint64(3), "one relist a restart at most: %s", f)
}

// kill kills the server and waits until the status of the informer shows it.
func kill[T object.Object](t *testing.T, srv *envtest.Server, f *follower[T]) {
	t.Helper()
	srv.Kill()
	// The first failures may be about the broken connections.
	f.awaitStatus("the informer says that the server is gone", func(s sharedinformer.Status) bool {
		return s.Reflector.Attempts > 0 && strings.Contains(s.Reflector.Failure.Error(), "connection refused")
	})
	require.Contains(t, f.Status().Reflector.Failure.Error(), "configmaps in namespace ")
	require.True(t, f.HasSynced(), "what is cached stays")
}

// failures records the failures that an informer reports.
type failures struct {
	mu  sync.Mutex
	all []*failure.Failure
}

func (l *failures) add(f *failure.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, f)
}

// expired returns the number of 410s.
func (l *failures) expired() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, f := range l.all {
		if apierrors.IsResourceExpired(f.Err) || apierrors.IsGone(f.Err) {
			n++
		}
	}
	return n
}

// TestExpired makes etcd forget the version from which an informer would resume: while it is
// stopped, and between two pages of a list.
func TestExpired(t *testing.T) {
	t.Parallel()
	// Without the watch cache, every read goes to etcd.
	srv := envtest.Start(t, envtest.Options{Flags: []string{"--watch-cache=false"}})
	client := connect(t, srv, "admin")
	for _, initial := range []reflector.Initial{reflector.Auto, reflector.WatchList, reflector.List} {
		t.Run("watch after "+initial.String(), func(t *testing.T) { watchExpires(t, srv, client, initial) })
	}
	t.Run("verbs", func(t *testing.T) { verbsExpire(t, srv, client) })
	t.Run("page", func(t *testing.T) { pageExpires(t, srv, client) })
}

func watchExpires(t *testing.T, srv *envtest.Server, client *rest.Client, initial reflector.Initial) {
	ns := newNamespace(t, client)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	create := func(from, to int) {
		for n := from; n < to; n++ {
			_, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{})
			require.NoError(t, err)
		}
	}
	create(0, 10)
	seen, opts := &failures{}, sharedinformer.Options{}
	opts.Initial, opts.Timing.Backoff = initial, brisk
	opts.OnError = keep(seen)
	f := follow(t, maps, opts)
	f.sync()
	f.agree()
	f.stop()

	for n := 1; n <= 2; n++ {
		require.NoError(t, maps.Delete(t.Context(), object.Key{Name: name(n)}, metav1.DeleteOptions{}))
	}
	create(2, 3) // a new object of the same name
	create(10, 20)
	_, err := srv.Compact(t.Context())
	require.NoError(t, err)
	create(20, 21)
	f.start()
	f.agree()
	require.Equal(t, 1, seen.expired(), "%s", f)
	require.Equal(t, uint64(1), f.Status().Reflector.Relists, "%s", f)
	require.Equal(t, counts{initial: 10, added: 22, deleted: 2, unknown: 2}, f.calls())
	create(21, 22)
	f.agree()
}

// pageExpires deletes an object and compacts after half of a page was read, so the token for the
// next page has expired.
func pageExpires(t *testing.T, srv *envtest.Server, client *rest.Client) {
	ns := newNamespace(t, client)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	for n := range 30 {
		_, err := maps.Create(t.Context(), configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	read := 0
	disturbed := reflector.Transformed(maps.Source(), func(c *corev1.ConfigMap) (*corev1.ConfigMap, error) {
		if read++; read != 5 {
			return c, nil
		}
		if err := maps.Delete(t.Context(), object.Key{Name: name(2)}, metav1.DeleteOptions{}); err != nil {
			return nil, err
		}
		if _, err := srv.Compact(t.Context()); err != nil {
			return nil, fmt.Errorf("compact: %w", err)
		}
		return c, nil
	})
	seen, opts := &failures{}, sharedinformer.Options{}
	opts.Initial, opts.PageSize, opts.Timing.Backoff = reflector.List, 10, brisk
	opts.OnError = keep(seen)
	f := attach(t, sharedinformer.New[*corev1.ConfigMap](disturbed, opts), maps, opts)
	f.start()
	f.sync()
	f.agree()
	require.Equal(t, 1, seen.expired(), "%s", f)
	require.Equal(t, uint64(2), f.Status().Reflector.Lists, "%s", f)
	require.Equal(t, counts{initial: 29, added: 29}, f.calls())
}

// verbsExpire provokes the three forms of the 410: a refused list, a refused page, and the ERROR
// event of a watch.
func verbsExpire(t *testing.T, srv *envtest.Server, client *rest.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(newNamespace(t, client))
	old, err := maps.Create(ctx, configMap(0), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = maps.Create(ctx, configMap(1), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Len(t, listAll(t, maps, metav1.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}), 1)

	paged, pageErr := 0, error(nil)
	for _, err := range maps.List(ctx, metav1.ListOptions{Limit: 1}).Items {
		if paged++; paged == 1 {
			_, compactErr := maps.Create(ctx, configMap(2), metav1.CreateOptions{})
			require.NoError(t, compactErr)
			_, compactErr = srv.Compact(ctx)
			require.NoError(t, compactErr)
		}
		pageErr = err
	}
	require.Equal(t, 2, paged)
	require.True(t, apierrors.IsResourceExpired(pageErr), "%v", pageErr)

	for _, err = range maps.List(ctx, metav1.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}).Items {
	}
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)

	events, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: old.ResourceVersion})
	require.NoError(t, err)
	for _, err = range events {
	}
	require.True(t, apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "%v", err)
}
