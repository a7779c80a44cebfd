package apiservertest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
)

const widgetWatch = "/apis/example.com/v1/widgets?watch=1&resourceVersion="

// discovered returns the content of both formats of discovery for example.com:
// versions, and whether widgets are namespaced.
func (r *rig) discovered() (found []string) {
	r.t.Helper()
	var aggregated struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []struct{ Scope string }
			}
		}
	}
	_, raw, _ := r.do("GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	require.NoError(r.t, json.Unmarshal(raw, &aggregated), "%s", raw)
	for _, group := range aggregated.Items {
		for _, v := range group.Versions {
			if group.Metadata.Name == "example.com" {
				found = append(found, v.Version+" "+v.Resources[0].Scope)
			}
		}
	}
	for _, version := range []string{"v1", "v2"} {
		code, raw, _ := r.do("GET", "/apis/example.com/"+version, "")
		if code == 404 {
			continue
		}
		var old struct {
			Resources []struct{ Namespaced bool }
		}
		require.NoError(r.t, json.Unmarshal(raw, &old), "%s", raw)
		found = append(found, version+" "+map[bool]string{true: "Namespaced", false: "Cluster"}[old.Resources[0].Namespaced])
	}
	return found
}

func TestAResourceComesBackWithAnotherScope(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		r.create(widget("w", 1), widget("x", 1))
		require.Equal(t, []string{"v1 Namespaced", "v1 Namespaced"}, r.discovered())
		w := r.watch(widgetWatch + r.RV())
		synctest.Wait()
		require.NoError(t, r.RemoveResource(widgets))
		events, err := w.rest()
		require.NoError(t, err)
		require.Equal(t, []string{"DELETED w@103", "DELETED x@104"}, events)
		require.Empty(t, r.discovered())
		code, _, _ := r.do("GET", widgetWatch+"102", "")
		require.Equal(t, 404, code)

		cluster := widgetResource()
		cluster.Namespaced = false
		require.NoError(t, r.AddResource(cluster))
		require.Equal(t, []string{"v1 Cluster", "v1 Cluster"}, r.discovered())
		code, _, _ = r.do("GET", "/apis/example.com/v1/namespaces/default/widgets", "")
		require.Equal(t, 404, code)
		events, err = r.watch(widgetWatch + "102&timeoutSeconds=1").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"ERROR 410 Expired: too old resource version: 102 (104)"}, events)
		w = r.watch(widgetWatch + r.RV())
		again := widget("w", 1)
		again.SetNamespace("")
		r.create(again)
		require.Equal(t, "ADDED w@105", w.next())
	})
}

func TestAResourceChangesItsVersion(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		r.create(widget("w", 1))
		before, err := r.Get(widgets, keyOf("default", "w"))
		require.NoError(t, err)
		w := r.watch(widgetWatch + r.RV())
		synctest.Wait()
		next := widgetResource()
		next.Version = "v2"
		require.NoError(t, r.ReplaceResource(widgets, next))
		events, err := w.rest()
		require.NoError(t, err)
		require.Empty(t, events, "nothing was deleted")
		code, _, _ := r.do("GET", "/apis/example.com/v1/widgets", "")
		require.Equal(t, 404, code)
		require.Equal(t, []string{"v2 Namespaced", "v2 Namespaced"}, r.discovered())

		after, err := r.Get(next.GVR, keyOf("default", "w"))
		require.NoError(t, err)
		require.Equal(t, "example.com/v2", after.GetObjectKind().GroupVersionKind().GroupVersion().String())
		require.Equal(t, before.GetUID(), after.GetUID())
		require.Equal(t, before.GetResourceVersion(), after.GetResourceVersion())

		require.Error(t, r.ReplaceResource(widgets, next), "it is no longer there")
		cluster := widgetResource()
		cluster.Namespaced = false
		require.Error(t, r.ReplaceResource(next.GVR, cluster))
		require.Error(t, r.ReplaceResource(pods, widgetResource()))
	})
}

// A write in progress while its resource is removed fails and is not lost.
func TestAWriteMeetsTheEndOfItsResource(t *testing.T) {
	for verb, path := range map[string]string{"POST": "", "PUT": "/w", "DELETE": "/w"} {
		inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
			r.create(widget("w", 1))
			body, rest := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), verb, r.url+"/apis/example.com/v1/namespaces/default/widgets"+path, body)
			require.NoError(t, err)
			time.AfterFunc(time.Second, func() {
				_ = r.RemoveResource(widgets)
				_ = r.AddResource(widgetResource())
				text := map[string]string{"POST": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"}}`, "PUT": `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"101"}}`, "DELETE": "{}"}[verb]
				_, err := io.WriteString(rest, text)
				rest.CloseWithError(err)
			})
			resp, err := r.client.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, 404, resp.StatusCode, verb)
			require.Empty(t, r.Objects(widgets))
		})
	}
}

// So does a read that waits for a lagging server: the old state is no longer the
// current one.
func TestAReadMeetsTheEndOfItsResource(t *testing.T) {
	next := widgetResource()
	next.Version = "v2"
	for name, end := range map[string]func(*rig) error{
		"removed":  func(r *rig) error { return r.RemoveResource(widgets) },
		"replaced": func(r *rig) error { return r.ReplaceResource(widgets, next) },
	} {
		withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{Lag: 2 * time.Second}, func(t *testing.T, r, f *rig) {
			r.create(widget("w", 1))
			time.AfterFunc(time.Second, func() {
				_ = end(r)
				r.create(pod("default", "a")) // which the lists must not return
			})
			answers := map[string]string{}
			var reads sync.WaitGroup
			var mu sync.Mutex
			for _, path := range []string{"?limit=1", "?resourceVersion=101", "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=9", "/w?resourceVersion=101"} {
				reads.Go(func() {
					of := "widgets"
					if path[0] == '/' {
						of = "namespaces/default/widgets"
					}
					code, raw, _ := f.do("GET", "/apis/example.com/v1/"+of+path, "")
					mu.Lock()
					defer mu.Unlock()
					answers[path] = fmt.Sprint(code, " ", strings.Contains(string(raw), `"w"`))
				})
			}
			reads.Wait()
			for path, answer := range answers {
				require.Equal(t, "404 false", answer, "%s: %s", name, path)
			}
		})
	}
}

func TestRightsGoAndComeWhileAWatchIsOpen(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		w := r.watch("/api/v1/pods?watch=1&timeoutSeconds=60&resourceVersion=" + r.RV())
		synctest.Wait()
		r.SetAuthorizer(apiservertest.Deny("", "pods"))
		require.EqualValues(t, 403, r.status("GET", "/api/v1/pods", "").Code)
		require.EqualValues(t, 403, r.status("GET", "/api/v1/pods?watch=1", "").Code)
		r.create(pod("default", "a"))
		events, err := w.rest()
		require.NoError(t, err)
		require.Equal(t, []string{"ADDED a@101"}, events, "what was allowed when it began goes on until it ends")
		r.SetAuthorizer(nil)
		require.Equal(t, []string{"a"}, r.list("/api/v1/pods").names())
	})
}

// A list, watch or deletion with a field selector for one name is authorized with that
// name, as for Roles with resourceNames.
func TestFieldSelectorByNameIsAuthorizedByName(t *testing.T) {
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		r.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Name == "a" })
		for _, request := range []struct {
			method, query string
			code          int
		}{
			{"GET", "", 403},
			{"GET", "?fieldSelector=metadata.name%3Da", 200},
			{"GET", "?fieldSelector=metadata.name%3Db", 403},
			{"GET", "?fieldSelector=metadata.name!%3Da", 403},
			{"GET", "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da", 200},
			{"DELETE", "?fieldSelector=metadata.name%3Da", 200},
			{"DELETE", "?fieldSelector=metadata.name%3D..", 403},
		} {
			code, _, _ := r.do(request.method, "/api/v1/namespaces/default/configmaps"+request.query, "")
			require.Equal(t, request.code, code, "%s %s", request.method, request.query)
		}
	})
}

// A lagging server starts its cache of a recreated resource with the content of etcd.
// It has no earlier history and must not pretend to.
func TestLaggingServerBeginsANewResourceWithThePresentState(t *testing.T) {
	withFront(t, apiservertest.Options{}, apiservertest.FrontOptions{Lag: time.Hour}, func(t *testing.T, r, f *rig) {
		r.create(widget("w", 1))
		then := r.RV()
		require.NoError(t, r.RemoveResource(widgets))
		require.NoError(t, r.AddResource(widgetResource()))
		require.Equal(t, "100", f.Seen())

		events, err := f.watch(widgetWatch + then + "&timeoutSeconds=1").rest()
		require.NoError(t, err)
		require.Equal(t, []string{"ERROR 410 Expired: too old resource version: 101 (102)"}, events)
		require.Zero(t, took(func() {
			l := f.list("/apis/example.com/v1/widgets?resourceVersion=0")
			require.Empty(t, l.Items)
			require.Equal(t, r.RV(), l.Metadata.ResourceVersion)
		}))
		events, err = f.watch(widgetWatch + r.RV() + "&timeoutSeconds=1").rest()
		require.NoError(t, err)
		require.Empty(t, events)
	})
}

// heldWriter lets one write through when told to, and the others after it.
type heldWriter struct {
	*httptest.ResponseRecorder
	open chan struct{}
}

func (w heldWriter) Write(p []byte) (int, error) {
	<-w.open
	return w.ResponseRecorder.Write(p)
}

// A watch that was blocked for long reports the end of its resource, but no later
// versions of the cluster: those may belong to a new resource of the same name.
func TestAWatchEndsWithItsResource(t *testing.T) {
	for range 20 { // the end, a change and a bookmark are ready at once, in any order
		inBubble(t, apiservertest.Options{}, watchEndsWithItsResource)
	}
}

func watchEndsWithItsResource(t *testing.T, r *rig) {
	r.create(widget("w", 1))
	w := heldWriter{httptest.NewRecorder(), make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() {
		r.ServeHTTP(w, httptest.NewRequest("GET", widgetWatch+"100&allowWatchBookmarks=true", nil))
	})
	synctest.Wait() // it writes all pending events
	require.NoError(t, r.RemoveResource(widgets))
	require.NoError(t, r.AddResource(widgetResource()))
	r.create(widget("another", 1))
	time.Sleep(2 * time.Minute) // a bookmark is due
	close(w.open)
	serving.Wait()
	require.Equal(t, 2, strings.Count(w.Body.String(), "\n"), w.Body.String())
	require.Contains(t, w.Body.String(), `"DELETED"`)
}
