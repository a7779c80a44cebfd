package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/wire"
)

// The consumer gets the first item before the server has sent the second: a list is not
// collected first.
func TestListStreams(t *testing.T) {
	for _, media := range []string{wire.MediaJSON, wire.MediaProtobuf} {
		t.Run(media, func(t *testing.T) {
			body := encode(t, media, corev1.SchemeGroupVersion.WithKind("PodList"), podList("first", "second"))
			before, after, found := strings.Cut(string(body), "second")
			require.True(t, found)
			consumed := make(chan struct{})
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				io.WriteString(w, before)
				w.(http.Flusher).Flush()
				<-consumed
				io.WriteString(w, "second"+after)
			})
			var got []string
			for p, err := range ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{}).Items {
				require.NoError(t, err)
				if got = append(got, p.Name); len(got) == 1 {
					close(consumed)
				}
			}
			require.Equal(t, []string{"first", "second"}, got)
		})
	}
}

func TestListFollowsPages(t *testing.T) {
	var queries []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		list := podList(fmt.Sprint("p", len(queries)))
		list.ResourceVersion = fmt.Sprint(100 * len(queries))
		if left := int64(3 - len(queries)); left > 0 {
			list.Continue, list.RemainingItemCount = fmt.Sprint("page", len(queries)), &left
		}
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), list))
	})
	l := ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{Limit: 1, ResourceVersion: "5", ResourceVersionMatch: "NotOlderThan", LabelSelector: "a"})
	require.Equal(t, []string{"p1", "p2", "p3"}, itemNames(t, l))
	require.Equal(t, &metav1.ListMeta{ResourceVersion: "100"}, l.Meta)
	require.Equal(t, []string{
		"labelSelector=a&limit=1&resourceVersion=5&resourceVersionMatch=NotOlderThan",
		"continue=page1&labelSelector=a&limit=1",
		"continue=page2&labelSelector=a&limit=1",
	}, queries)
	for _, err := range l.Items {
		require.ErrorContains(t, err, "list again")
	}
	require.Len(t, queries, 3)
}

func TestListEndsAtAnExpiredToken(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaJSON)
		if r.URL.Query().Get("continue") != "" {
			status := apierrors.NewResourceExpired("The provided continue parameter is too old").ErrStatus
			w.WriteHeader(http.StatusGone)
			w.Write(encode(t, wire.MediaJSON, kindStatus, &status))
			return
		}
		list := podList("a")
		list.Continue = "x"
		w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), list))
	})
	var got []string
	var failure error
	for p, err := range ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{Limit: 1}).Items {
		if failure = err; err == nil {
			got = append(got, p.Name)
		}
	}
	require.Equal(t, []string{"a"}, got)
	require.True(t, apierrors.IsResourceExpired(failure), "%v", failure)
}

func TestListStopsAtATokenThatLeadsNowhere(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		list := podList()
		list.Continue = "again"
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), list))
	})
	var failure error
	for _, err := range ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{Limit: 1}).Items {
		failure = err
	}
	require.ErrorContains(t, failure, "leads to itself")
}

func TestListStopsIfPagesRepeat(t *testing.T) {
	for _, circle := range []int{2, 3, 100} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			at, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			list := podList("a")
			if list.Continue = fmt.Sprint(at + 1); at == 5+circle {
				list.Continue = "5"
			}
			w.Header().Set("Content-Type", wire.MediaJSON)
			w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), list))
		})
		var failure error
		items := 0
		for _, err := range ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{Limit: 1}).Items {
			failure = err
			items++
			require.Less(t, items, 5*circle+20)
		}
		require.ErrorContains(t, failure, "leads back to an earlier one")
	}
}

func TestListStopsAfterOnlyEmptyPages(t *testing.T) {
	pages := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		list := podList()
		pages++
		list.Continue = fmt.Sprint(pages)
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), list))
	})
	var failure error
	for _, err := range ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{Limit: 1}).Items {
		failure = err
	}
	require.ErrorContains(t, failure, "1000 consecutive pages were empty")
	require.Equal(t, maxEmptyPages, pages)
}

// A truncated body is never a shorter list. The error says whether the transport or the
// content was at fault.
func TestTruncatedListIsAnError(t *testing.T) {
	body := encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), podList("a", "b"))
	for name, length := range map[string]bool{"connection breaks": true, "body ends": false} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", wire.MediaJSON)
				if length {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				w.Write(body[:len(body)-20])
			})
			l := ResourceFor[*corev1.Pod](c).List(t.Context(), metav1.ListOptions{})
			var failure error
			for _, err := range l.Items {
				failure = err
			}
			require.ErrorIs(t, failure, io.ErrUnexpectedEOF)
			require.ErrorContains(t, failure, "list pods: ")
		})
	}
}

func TestBreakClosesTheBody(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			gone := make(chan struct{})
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", wire.MediaJSON)
				if verb == "list" {
					io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},`)
				} else {
					writeFrame(t, w, wire.MediaJSON, "ADDED", kindPod, pod("a"))
				}
				w.(http.Flusher).Flush()
				<-r.Context().Done() // the client has disconnected
				close(gone)
			})
			pods := ResourceFor[*corev1.Pod](c)
			if verb == "list" {
				for _, err := range pods.List(t.Context(), metav1.ListOptions{}).Items {
					require.NoError(t, err)
					break
				}
			} else {
				events, err := pods.Watch(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				for _, err := range events {
					require.NoError(t, err)
					break
				}
			}
			<-gone
		})
	}
}

func TestCancelEndsAWatch(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaJSON)
		writeFrame(t, w, wire.MediaJSON, "ADDED", kindPod, pod("a"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	events, err := ResourceFor[*corev1.Pod](c).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	n := 0
	var failure error
	for _, err := range events {
		if failure = err; err == nil {
			n++
			cancel(enough)
		}
	}
	require.Equal(t, 1, n)
	require.ErrorIs(t, failure, enough)
	require.ErrorContains(t, failure, "watch pods: ")
}

func TestWatchErrorEventIsAStatusError(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", wire.MediaProtobuf)
		status := apierrors.NewResourceExpired("too old resource version").ErrStatus
		writeFrame(t, w, wire.MediaProtobuf, "ERROR", kindStatus, &status)
	})
	events, err := ResourceFor[*corev1.Pod](c).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	require.NoError(t, err)
	var failure error
	for _, err := range events {
		failure = err
	}
	require.True(t, apierrors.IsResourceExpired(failure), "%v", failure)
}

// The query of a watch contains only the given options.
func TestWatchQuery(t *testing.T) {
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.RawQuery
		w.Header().Set("Content-Type", wire.MediaJSON)
	})
	yes, timeout := true, int64(300)
	opts := metav1.ListOptions{
		ResourceVersion: "5", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: &yes,
		AllowWatchBookmarks: true, TimeoutSeconds: &timeout, FieldSelector: "spec.nodeName=a",
	}
	shard := ""
	if f := reflect.ValueOf(&opts).Elem().FieldByName("ShardSelector"); f.IsValid() { // from v0.36 on
		f.SetString("shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")
		shard = "&shardSelector=shardRange%28object.metadata.uid%2C+%270x0000000000000000%27%2C+%270x8000000000000000%27%29"
	}
	events, err := ResourceFor[*corev1.Pod](c).Watch(t.Context(), opts)
	require.NoError(t, err)
	for _, err := range events {
		require.NoError(t, err)
	}
	require.Equal(t, "allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Da&resourceVersion=5&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"+
		shard+"&timeoutSeconds=300&watch=true", got)
}

func TestAnswersThatAreNotTheAPI(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!DOCTYPE html>\n<title>Please log in</title>"+strings.Repeat("x", 1000))
	})
	pods := ResourceFor[*corev1.Pod](c)
	reason := c.base.Host + ` answered 200 OK with text/html titled "Please log in", which is not from the Kubernetes API; is a proxy or a login page in the way?`
	_, err := pods.Get(t.Context(), key, metav1.GetOptions{})
	require.ErrorContains(t, err, "get pods default/a: "+reason)
	require.Less(t, len(err.Error()), 350)
	_, err = pods.Watch(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "watch pods: "+reason)
	for _, err := range pods.List(t.Context(), metav1.ListOptions{}).Items {
		require.ErrorContains(t, err, "list pods: "+reason)
	}
	_, err = c.Mapper().MappingForKind(t.Context(), object.GVK{Group: "example.com", Version: "v1", Kind: "Widget"})
	require.ErrorContains(t, err, "discovery failed for /api and /apis: "+reason)
	require.Equal(t, 1, strings.Count(err.Error(), "Please log in"), "%v", err)
}

func TestUnrequestedCompressedAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("accept-encoding: got %q, want none", got)
		}
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Header().Set("Content-Encoding", "gzip")
	})
	_, err := ResourceFor[*corev1.Pod](c).Get(t.Context(), key, metav1.GetOptions{})
	require.ErrorContains(t, err, `content encoding "gzip"`)
}

// After a server has refused protobuf, the client uses JSON.
func TestFallbackToJSONIsPermanent(t *testing.T) {
	for _, code := range []int{http.StatusNotAcceptable, http.StatusUnsupportedMediaType} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			var requests []string
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests = append(requests, r.Method+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("Accept"))
				if strings.Contains(r.Header.Get("Accept"), "protobuf") {
					w.WriteHeader(code)
					return
				}
				w.Header().Set("Content-Type", wire.MediaJSON)
				w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
			})
			pods := ResourceFor[*corev1.Pod](c)
			_, err := pods.Create(t.Context(), pod("a"), metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = pods.Namespace("default").Get(t.Context(), key, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, []string{
				"POST " + wire.MediaProtobuf + " " + wire.MediaProtobuf + "," + wire.MediaJSON,
				"POST " + wire.MediaJSON + " " + wire.MediaJSON,
				"GET  " + wire.MediaJSON,
			}, requests)
		})
	}
}

// CBOR is requested first, decoded if received, and never sent. After a server has
// refused it, the client uses JSON.
func TestCBORIsRequestedFirst(t *testing.T) {
	var requests []string
	refuse := false
	answer := func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Header.Get("Content-Type")+" "+r.Header.Get("Accept"))
		if refuse && strings.Contains(r.Header.Get("Accept"), "cbor") {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		media := wire.MediaCBOR
		if refuse {
			media = wire.MediaJSON
		}
		w.Header().Set("Content-Type", media)
		w.Write(encode(t, media, kindPod, pod("a")))
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	c := clientOf(t, &config.Config{Host: server.URL, CBOR: true})
	pods := ResourceFor[*corev1.Pod](c)
	get := func() {
		got, err := pods.Get(t.Context(), key, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, pod("a"), got)
	}
	get()
	_, err := pods.Create(t.Context(), pod("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = ResourceForKind[*unstructured.Unstructured](c, kindPod).Keep(wire.WithoutManagedFields).Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = ResourceForKind[*metav1.PartialObjectMetadata](c, kindPod).Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	const as, drop = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ";drop=metadata.managedFields"
	accept := wire.MediaCBOR + "," + wire.MediaProtobuf + "," + wire.MediaJSON
	require.Equal(t, []string{
		" " + accept,
		wire.MediaProtobuf + " " + accept,
		" " + wire.MediaCBOR + drop + "," + wire.MediaCBOR + "," + wire.MediaJSON + drop + "," + wire.MediaJSON,
		" " + wire.MediaCBOR + as + "," + wire.MediaProtobuf + as + "," + wire.MediaJSON + as + "," + wire.MediaJSON,
	}, requests)

	requests, refuse = nil, true
	get()
	get()
	require.Equal(t, []string{" " + accept, " " + wire.MediaJSON, " " + wire.MediaJSON}, requests)
}

// Unwanted managed fields are not requested. A server that cannot leave them out may
// send them, use the next clause of the header, or refuse.
func TestW04_ManagedFieldsAreNotRequested(t *testing.T) {
	const drop = ";drop=metadata.managedFields"
	inProtobuf := wire.MediaProtobuf + drop + "," + wire.MediaProtobuf + "," + wire.MediaJSON + drop + "," + wire.MediaJSON
	inJSON := wire.MediaJSON + drop + "," + wire.MediaJSON
	const asMetadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadata := wire.MediaProtobuf + asMetadata + drop + "," + wire.MediaProtobuf + asMetadata + "," +
		wire.MediaJSON + asMetadata + drop + "," + wire.MediaJSON + asMetadata + "," + wire.MediaJSON
	var accepts []string
	refuse := false
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		accepts = append(accepts, r.Header.Get("Accept"))
		if refuse && strings.Contains(r.Header.Get("Accept"), "drop=") {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		p := pod("a")
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kindPod, p))
	})
	get := func(f wire.Fields) {
		p, err := ResourceFor[*corev1.Pod](c).Keep(f).Get(t.Context(), key, metav1.GetOptions{})
		require.NoError(t, err)
		require.Empty(t, p.ManagedFields)
		require.Equal(t, "u-1", string(p.UID))
	}
	get(wire.WithoutManagedFields)
	get(wire.Only("spec.nodeName"))
	_, err := ResourceForKind[*unstructured.Unstructured](c, kindPod).Keep(wire.WithoutManagedFields).Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = ResourceForKind[*metav1.PartialObjectMetadata](c, kindPod).Keep(wire.Without("metadata")).Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{inProtobuf, inProtobuf, inJSON, metadata}, accepts)

	accepts, refuse = nil, true
	get(wire.WithoutManagedFields)
	get(wire.WithoutManagedFields)
	require.Equal(t, []string{inProtobuf, wire.MediaJSON, wire.MediaJSON}, accepts)
}

// No request is sent if the objects lack a wanted field.
func TestW04_FieldsAreCheckedFirst(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	pods := ResourceFor[*corev1.Pod](c).Keep(wire.Only("spec.nodename")).Namespace("default")
	_, err := pods.Watch(t.Context(), metav1.ListOptions{})
	require.ErrorIs(t, err, wire.ErrFields)
	require.EqualError(t, err, `watch pods in namespace default: no such field: "spec.nodename" of v1.Pod: "spec" has no "nodename", did you mean "nodeName"?`)
}

// A partial object must not replace the whole one.
func TestW04_PartialObjectsAreNotWrittenBack(t *testing.T) {
	updates := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		updates++
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
	})
	for f, allowed := range map[wire.Fields]bool{
		wire.Only("spec"): false, wire.Without("status"): false, wire.Without(): true, wire.WithoutManagedFields: true,
	} {
		before := updates
		_, err := ResourceFor[*corev1.Pod](c).Keep(f).Update(t.Context(), pod("a"), metav1.UpdateOptions{})
		require.Equal(t, allowed, err == nil, "%s: %v", f, err)
		require.Equal(t, allowed, updates > before)
	}
}

// A patch type that the server does not know is not a reason to give up protobuf.
func TestUnsupportedPatchIsNotAFallback(t *testing.T) {
	n := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.WriteHeader(http.StatusUnsupportedMediaType)
	})
	_, err := ResourceFor[*corev1.Pod](c).Patch(t.Context(), key, "application/json-patch+json", []byte("[]"), metav1.PatchOptions{})
	require.True(t, apierrors.IsUnsupportedMediaType(err), "%v", err)
	require.Equal(t, 1, n)
	require.False(t, c.wantsPlain(corev1.SchemeGroupVersion.WithResource("pods")))
}

func TestPrefixOfTheServer(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kindPod, pod("a")))
	}))
	defer server.Close()
	c := clientOf(t, &config.Config{Host: server.URL + "/clusters/one"})
	_, err := ResourceFor[*corev1.Pod](c).Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "/clusters/one/api/v1/namespaces/default/pods/a", got)
}

func TestNoAnswer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	c := clientOf(t, &config.Config{Host: server.URL})
	_, err := ResourceFor[*corev1.Pod](c).Get(t.Context(), key, metav1.GetOptions{})
	host := strings.TrimPrefix(server.URL, "http://")
	require.ErrorContains(t, err, "get pods default/a: no answer from "+host+": dial tcp: connect")
	require.ErrorContains(t, err, "check that the API server is running")
	require.Equal(t, 1, strings.Count(err.Error(), host), "named once: %v", err)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	_, err = ResourceFor[*corev1.Pod](c).Watch(ctx, metav1.ListOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "watch pods: not sent: context deadline exceeded", "the server is not to blame")
}
