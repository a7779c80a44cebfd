package apiservertest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// podResource returns the description of pods.
func podResource() apiservertest.Resource {
	for _, r := range apiservertest.Builtin() {
		if r.GVR == pods {
			return r
		}
	}
	panic("no pods")
}

func newLoad(t testing.TB, objects int, events int64) *apiservertest.Load {
	t.Helper()
	load, err := apiservertest.NewLoad(apiservertest.LoadOptions{
		Resource: podResource(),
		Objects:  objects,
		Events:   events,
		New:      func(i int) object.Object { return pod("default", fmt.Sprintf("p%03d", i)) },
		Change:   func(obj object.Object, i int) { obj.SetLabels(map[string]string{"changed": strconv.Itoa(i)}) },
	})
	require.NoError(t, err)
	return load
}

func TestLoad(t *testing.T) {
	load := newLoad(t, 3, 7)
	r := newRig(t, apiservertest.Options{Loads: []*apiservertest.Load{load}})
	l := r.list("/api/v1/pods")
	require.Equal(t, []string{"p000", "p001", "p002"}, l.names())
	require.Equal(t, "1000000002", l.Items[2].Metadata.ResourceVersion)
	require.Equal(t, load.ListRV(), l.Metadata.ResourceVersion)
	one := r.list("/api/v1/pods?limit=1")
	require.Equal(t, []string{"p000"}, one.names())
	require.Equal(t, load.ListRV(), one.Metadata.ResourceVersion)

	events, err := r.watch("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=" + load.ListRV()).rest()
	require.NoError(t, err, "after the events it is silent, then it ends")
	require.Len(t, events, 7)
	for i, e := range events {
		require.Equal(t, fmt.Sprintf("MODIFIED p%03d@%d", i%3, 1000000004+i), e)
	}
	streamed := r.watch("/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=0")
	require.Equal(t, "ADDED p000@1000000000", streamed.next())
	streamed.next()
	streamed.next()
	require.Equal(t, "BOOKMARK @1000000003 end", streamed.next())
	require.Equal(t, "MODIFIED p000@1000000004", streamed.next())

	resp := r.open("GET", "/api/v1/pods?watch=1&resourceVersion=1000000010", "", "Accept", proto)
	for i := range 7 {
		kind, body := readFrame(t, resp.Body)
		var p corev1.Pod
		decodeProto(t, body, &p)
		require.Equal(t, "MODIFIED", kind)
		require.Equal(t, strconv.Itoa(1000000011+i), p.ResourceVersion)
		require.Equal(t, strconv.Itoa(i%3), p.Labels["changed"])
	}
	require.NotEmpty(t, r.list("/api/v1/nodes").Metadata.ResourceVersion, "other resources come from the store")
}

// A sharded load returns only selected objects and events, in lists and streams.
func TestLoadOfAShare(t *testing.T) {
	const of = "&shardSelector=shardRange(object.metadata.namespace,'0x%016x','0x%s')"
	hash := shard.Hash("b")
	only, rest := fmt.Sprintf(of, hash, fmt.Sprintf("%016x", hash+1)), fmt.Sprintf(of, hash+1, "1"+strings.Repeat("0", 16))
	serve := func(opts apiservertest.Options) (*rig, string) {
		load, err := apiservertest.NewLoad(apiservertest.LoadOptions{
			Resource: podResource(), Objects: 6, Events: 3,
			New: func(i int) object.Object { return pod(string(rune('a'+i%3)), fmt.Sprintf("p%03d", i)) },
		})
		require.NoError(t, err)
		opts.Loads = []*apiservertest.Load{load}
		return newRig(t, opts), load.ListRV()
	}
	r, rv := serve(apiservertest.Options{ShardSelectors: true})
	require.Equal(t, []string{"p001", "p004"}, r.list("/api/v1/pods?"+only).names())
	require.NotContains(t, r.list("/api/v1/pods?"+rest).names(), "p001")
	require.Len(t, r.list("/api/v1/pods").names(), 6)
	one := r.list("/api/v1/pods?limit=1" + only)
	require.Equal(t, []string{"p001"}, one.names())
	require.EqualValues(t, 1, *one.Metadata.RemainingItemCount)
	streamed, err := r.watch("/api/v1/pods?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0" + only).rest()
	require.NoError(t, err)
	require.Equal(t, []string{
		"ADDED p001@1000000001", "ADDED p004@1000000004", "BOOKMARK @1000000006 end",
		"MODIFIED p001@1000000007", "MODIFIED p004@1000000008", "MODIFIED p001@1000000009",
	}, streamed)
	nobody := fmt.Sprintf(of, 0, fmt.Sprintf("%016x", 1))
	events, err := r.watch("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=" + rv + nobody).rest()
	require.NoError(t, err)
	require.Empty(t, events)

	r, _ = serve(apiservertest.Options{})
	require.Len(t, r.list("/api/v1/pods?"+only).names(), 6, "who does not know selectors overlooks them")
}

// BenchmarkLoad measures how fast a client that ignores the bytes can read a Load.
func BenchmarkLoad(b *testing.B) {
	srv := apiservertest.New(apiservertest.Options{Loads: []*apiservertest.Load{newLoad(b, 1000, 0)}})
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(b, err)
	defer srv.Close()
	for name, accept := range map[string]string{"json": "application/json", "protobuf": proto} {
		b.Run(name, func(b *testing.B) {
			resp := get(b, endpoint.URL+"/api/v1/pods?watch=1&resourceVersion="+newLoad(b, 1000, 0).ListRV(), accept)
			defer resp.Body.Close()
			size := frameSize(b, accept)
			buffer := make([]byte, 256<<10)
			b.SetBytes(int64(size))
			b.ResetTimer()
			for left := b.N * size; left > 0; {
				n, err := resp.Body.Read(buffer)
				require.NoError(b, err)
				left -= n
			}
		})
	}
}

// frameSize returns the approximate size of one event.
func frameSize(b *testing.B, accept string) int {
	p := pod("default", "p000", "changed", "100")
	if accept == proto {
		return p.Size() + 60
	}
	raw, err := json.Marshal(p)
	require.NoError(b, err)
	return len(raw) + 90
}

func get(t testing.TB, url, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

// TestLoadIsPlayedAndExpires goes through the life of a held Load.
func TestLoadIsPlayedAndExpires(t *testing.T) {
	load, err := apiservertest.NewLoad(apiservertest.LoadOptions{
		Resource: podResource(), Objects: 4, Changed: 2, Held: true, Stamp: true,
		New:    func(i int) object.Object { return pod("default", fmt.Sprintf("p%03d", i)) },
		Change: func(obj object.Object, i int) { obj.SetLabels(map[string]string{"changed": strconv.Itoa(i)}) },
	})
	require.NoError(t, err)
	r := newRig(t, apiservertest.Options{Loads: []*apiservertest.Load{load}})
	before := load.ListRV()
	began := time.Now()
	watch := r.watch("/api/v1/pods?watch=1&resourceVersion=" + before)
	load.Play(apiservertest.LoadPlay{Events: 2})
	require.Equal(t, "MODIFIED p000@1000000005", watch.next())
	require.Equal(t, "MODIFIED p001@1000000006", watch.next())
	load.Play(apiservertest.LoadPlay{Events: 3, PerSecond: 10_000})
	for _, want := range []string{"MODIFIED p002@1000000007", "MODIFIED p003@1000000008", "MODIFIED p000@1000000009"} {
		require.Equal(t, want, watch.next())
	}

	load.Expire()
	require.Contains(t, watch.next(), "410")
	late := r.watch("/api/v1/pods?watch=1&resourceVersion=" + before)
	require.Contains(t, late.next(), "410")
	l := r.list("/api/v1/pods")
	require.Equal(t, load.ListRV(), l.Metadata.ResourceVersion)
	var changed []string
	for i, item := range l.Items {
		if item.Metadata.ResourceVersion != strconv.Itoa(1_000_000_000+i) {
			changed = append(changed, item.Metadata.Name)
		}
	}
	require.Equal(t, []string{"p001", "p003"}, changed)
	require.WithinRange(t, load.ListedAt(), began, time.Now())

	again := r.watch("/api/v1/pods?watch=1&resourceVersion=" + load.ListRV())
	load.Play(apiservertest.LoadPlay{Events: 1})
	require.Equal(t, "MODIFIED p000@2000000008", again.next(), "what was played before does not count")
	load.Reset()
	require.Equal(t, before, load.ListRV())
}

// Objects made while they are sent equal those made beforehand.
func TestLoadGeneratedWhileItIsSent(t *testing.T) {
	streamed := func(afresh bool) []string {
		load, err := apiservertest.NewLoad(apiservertest.LoadOptions{
			Resource: podResource(), Objects: 400, Held: true, Afresh: afresh,
			New: func(i int) object.Object {
				return pod("default", fmt.Sprintf("p%03d", i), "long", strings.Repeat("x", 500)) // more than one chunk
			},
		})
		require.NoError(t, err)
		r := newRig(t, apiservertest.Options{Loads: []*apiservertest.Load{load}})
		events, err := r.watch("/api/v1/pods?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=0").rest()
		require.NoError(t, err)
		return events
	}
	beforehand := streamed(false)
	require.Len(t, beforehand, 401)
	require.Equal(t, beforehand, streamed(true))
}
