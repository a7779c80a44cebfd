package envtest

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// TestServer checks everything that tests need, on one server.
func TestServer(t *testing.T) {
	s := Start(t, Options{})
	t.Run("has the namespaces of every cluster", func(t *testing.T) {
		c := newCaller(t, s, s.AdminToken)
		got := c.call(http.StatusOK, http.MethodGet, "/api/v1/namespaces", nil).names()
		require.Subset(t, got, []string{"default", "kube-system"})
	})
	t.Run("takes a pod and deletes it", func(t *testing.T) {
		c := newCaller(t, s, s.AdminToken)
		const pods = "/api/v1/namespaces/default/pods"
		c.call(http.StatusCreated, http.MethodPost, pods, map[string]any{
			"metadata": map[string]any{"name": "web"},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx"}}},
		})
		// Without a node, it is removed without a kubelet.
		c.call(http.StatusOK, http.MethodDelete, pods+"/web", nil)
		c.call(http.StatusNotFound, http.MethodGet, pods+"/web", nil)
	})
	t.Run("deletes a bound pod only without grace", func(t *testing.T) {
		c := newCaller(t, s, s.AdminToken)
		const pods = "/api/v1/namespaces/default/pods"
		c.call(http.StatusCreated, http.MethodPost, "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": "node-1"}})
		c.call(http.StatusCreated, http.MethodPost, pods, map[string]any{
			"metadata": map[string]any{"name": "bound"},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx"}}},
		})
		c.call(http.StatusCreated, http.MethodPost, pods+"/bound/binding", map[string]any{
			"metadata": map[string]any{"name": "bound"}, "target": map[string]any{"kind": "Node", "name": "node-1"},
		})
		c.call(http.StatusOK, http.MethodDelete, pods+"/bound", nil)
		c.call(http.StatusOK, http.MethodGet, pods+"/bound", nil)
		c.call(http.StatusOK, http.MethodDelete, pods+"/bound?gracePeriodSeconds=0", nil)
		c.call(http.StatusNotFound, http.MethodGet, pods+"/bound", nil)
	})
	t.Run("forbids everything to nobody", func(t *testing.T) {
		c := newCaller(t, s, s.NobodyToken)
		got := c.call(http.StatusForbidden, http.MethodGet, "/api/v1/pods", nil)
		require.Equal(t, "Forbidden", got.Reason)
		require.Contains(t, got.Message, `User "nobody" cannot list resource "pods"`)
	})
	t.Run("does not know a wrong token", func(t *testing.T) {
		newCaller(t, s, "wrong").call(http.StatusUnauthorized, http.MethodGet, "/api/v1/pods", nil)
	})
	t.Run("knows the client certificate", func(t *testing.T) {
		pair, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
		require.NoError(t, err)
		newCaller(t, s, "", pair).call(http.StatusOK, http.MethodGet, "/api/v1/secrets", nil)
	})
	t.Run("streams an initial list", func(t *testing.T) { streamsInitialList(t, s) })
	t.Run("shards a list", func(t *testing.T) { shardsList(t, s) })
	t.Run("serves a custom resource", func(t *testing.T) { servesCustomResource(t, s) })
	t.Run("writes a kubeconfig", func(t *testing.T) {
		text, err := os.ReadFile(s.Kubeconfig)
		require.NoError(t, err)
		require.Contains(t, string(text), "server: "+s.URL)
		require.Contains(t, string(text), "current-context: admin\n")
	})
}

func streamsInitialList(t *testing.T, s *Server) {
	c := newCaller(t, s, s.AdminToken)
	for i := range 3 {
		c.call(http.StatusCreated, http.MethodPost, configMaps, configMap(fmt.Sprintf("stream-%d", i)))
	}
	path := configMaps + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	events := c.watch(path, func(e event) bool { return e.Type != "ADDED" })
	end := events[len(events)-1]
	require.Equal(t, "BOOKMARK", end.Type)
	require.Equal(t, "true", end.Object.Metadata.Annotations["k8s.io/initial-events-end"])
	var names []string
	for _, e := range events[:len(events)-1] {
		names = append(names, e.Object.Metadata.Name)
	}
	require.Subset(t, names, []string{"stream-0", "stream-1", "stream-2"})
}

// shardsList expects each namespace in exactly one half.
func shardsList(t *testing.T, s *Server) {
	c := newCaller(t, s, s.AdminToken)
	all := c.call(http.StatusOK, http.MethodGet, "/api/v1/namespaces", nil).names()
	var halves []string
	for _, half := range []string{
		"'0x0000000000000000', '0x8000000000000000'",
		"'0x8000000000000000', '0x10000000000000000'",
	} {
		q := url.Values{"shardSelector": {"shardRange(object.metadata.uid, " + half + ")"}}
		halves = append(halves, c.call(http.StatusOK, http.MethodGet, "/api/v1/namespaces?"+q.Encode(), nil).names()...)
	}
	require.ElementsMatch(t, all, halves)
}

func servesCustomResource(t *testing.T, s *Server) {
	c := newCaller(t, s, s.AdminToken)
	c.call(http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"metadata": map[string]any{"name": "wheels.mill.example"},
		"spec": map[string]any{
			"group": "mill.example", "scope": "Namespaced",
			"names": map[string]any{"kind": "Wheel", "plural": "wheels"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	})
	// The server takes a moment to serve a new kind, and answers 404 until then.
	const wheels = "/apis/mill.example/v1/namespaces/default/wheels"
	deadline := time.Now().Add(30 * time.Second)
	for {
		resp := c.open(http.MethodGet, wheels, nil)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			break
		}
		require.True(t, time.Now().Before(deadline), "wheels are not served; the last answer was %s", resp.Status)
		time.Sleep(20 * time.Millisecond)
	}
	c.call(http.StatusCreated, http.MethodPost, wheels, map[string]any{
		"apiVersion": "mill.example/v1", "kind": "Wheel", "metadata": map[string]any{"name": "overshot"},
	})
	require.Equal(t, []string{"overshot"}, c.call(http.StatusOK, http.MethodGet, wheels, nil).names())
}

// Flags come after those of test/kube, and feature gates are merged. A server without
// streaming lists rejects requests for initial events.
func TestFlagsTurnFeaturesOff(t *testing.T) {
	s := Start(t, Options{Flags: []string{"--feature-gates=WatchList=false"}})
	c := newCaller(t, s, s.AdminToken)
	path := configMaps + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	got := c.call(http.StatusUnprocessableEntity, http.MethodGet, path, nil)
	require.Contains(t, got.Message, "sendInitialEvents is forbidden for watch")
	shardsList(t, s) // the gates of test/kube are still on
}

func TestKillAndRestartKeepDataAndAddress(t *testing.T) {
	s := Start(t, Options{})
	c := newCaller(t, s, s.AdminToken)
	made := c.call(http.StatusCreated, http.MethodPost, configMaps, configMap("kept"))

	for range 2 {
		s.Kill()
		_, err := c.http.Get(s.URL + "/readyz")
		require.Error(t, err, "a killed server answers")
		_, err = s.Compact(t.Context())
		require.ErrorContains(t, err, "is not running")
		require.NoError(t, s.Restart(t.Context()))
		got := c.call(http.StatusOK, http.MethodGet, configMaps+"/kept", nil)
		require.Equal(t, made.Metadata, got.Metadata)
	}
	require.NoError(t, s.Restart(t.Context()), "restart of a running server")
	c.call(http.StatusOK, http.MethodGet, configMaps+"/kept", nil)
}

// makeHistory returns a resource version with changes after it, and a continue
// token from then.
func makeHistory(c *caller) (rv, token string) {
	c.t.Helper()
	for i := range 3 {
		c.call(http.StatusCreated, http.MethodPost, configMaps, configMap(fmt.Sprintf("history-%d", i)))
	}
	page := c.call(http.StatusOK, http.MethodGet, configMaps+"?limit=1", nil)
	require.NotEmpty(c.t, page.Metadata.Continue)
	for i := range 3 {
		c.call(http.StatusOK, http.MethodDelete, configMaps+fmt.Sprintf("/history-%d", i), nil)
	}
	return page.Metadata.ResourceVersion, page.Metadata.Continue
}

func TestExpiryWithoutWatchCache(t *testing.T) {
	s := Start(t, Options{Flags: []string{"--watch-cache=false"}})
	c := newCaller(t, s, s.AdminToken)
	rv, token := makeHistory(c)

	from := configMaps + "?watch=true&resourceVersion=" + rv
	events := c.watch(from, func(event) bool { return true })
	require.Equal(t, "DELETED", events[0].Type, "before the compaction: %v", events[0].Object)
	c.call(http.StatusOK, http.MethodGet, configMaps+"?limit=1&continue="+token, nil)

	at, err := s.Compact(t.Context())
	require.NoError(t, err)
	require.Greater(t, fmt.Sprint(at), rv, "compacted too early")
	c.expired(from)
	got := c.call(http.StatusGone, http.MethodGet, configMaps+"?limit=1&continue="+token, nil)
	require.Equal(t, "Expired", got.Reason)
	require.NotEmpty(t, got.Metadata.Continue, "the token for an inconsistent rest of the list")
}

func TestExpiryWithWatchCache(t *testing.T) {
	s := Start(t, Options{})
	c := newCaller(t, s, s.AdminToken)
	rv, token := makeHistory(c)
	from := configMaps + "?watch=true&resourceVersion=" + rv

	_, err := s.Compact(t.Context())
	require.NoError(t, err)
	events := c.watch(from, func(event) bool { return true })
	require.Equal(t, "DELETED", events[0].Type, "the watch cache has lost its events: %v", events[0].Object)

	require.NoError(t, s.Restart(t.Context()))
	c.expired(from)
	c.call(http.StatusGone, http.MethodGet, configMaps+"?limit=1&continue="+token, nil)
}
