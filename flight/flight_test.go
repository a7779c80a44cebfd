package flight

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

func TestEventRoundTrip(t *testing.T) {
	r := New(DefaultSize)
	track := r.Track(Label{Role: Informer, Name: "pods"})
	want := Event{
		At: time.Unix(1, 2), Kind: Applied, Key: object.Key{Namespace: "shop", Name: "web-0"},
		UID: "0f8fad5b-d9cb-469f-a165-70867728950e", RV: "17", Change: "update", Text: "why", Outcome: "again",
		Cluster: "east", About: object.Key{Namespace: "x", Name: "y"}, After: 7, Position: 1 << 40, Count: 3, Bytes: 4000, Attempt: 2,
		Received: time.Second, Decoded: time.Millisecond, Queued: -time.Microsecond, Took: time.Hour,
	}
	track.Record(&want)
	got := r.Entries(nil)
	require.Len(t, got, 1)
	require.Equal(t, want, got[0].Event)
	require.Equal(t, Whose{Track: 1, Role: Informer, Name: "pods"}, got[0].Whose)
}

func FuzzRecord(f *testing.F) {
	f.Add("shop", "web-0", "0f8fad5b-d9cb-469f-a165-70867728950e", "17", "text", uint64(1), int64(-1))
	f.Add("", "", "0F8fad5b-d9cb-469f-a165-70867728950e", "", "", uint64(0), int64(0))
	f.Fuzz(func(t *testing.T, namespace, name, uid, rv, text string, n uint64, d int64) {
		e := Event{
			Cluster: text, About: object.Key{Namespace: namespace, Name: name}, After: n,
			At: time.Unix(0, d), Kind: Kind(n), Key: object.Key{Namespace: namespace, Name: name}, UID: uid, RV: rv, Text: text,
			Change: text, Outcome: text, Position: n, Count: int(n >> 1), Bytes: int(n >> 2), Attempt: int(n >> 3),
			Received: time.Duration(d), Decoded: time.Duration(d), Queued: time.Duration(d), Took: time.Duration(d),
		}
		var room [maxRecord]byte
		record := appendRecord(room[:0], &e, moment{d, time.Duration(n)})
		require.LessOrEqual(t, len(record), maxRecord)
		var got Entry
		require.Equal(t, "next", string(readRecord(append(record, "next"...), &got)))
		clip := func(s string, most int) string {
			if len(s) > most {
				return clip(s, most)
			}
			return s
		}
		e.Key = object.Key{Namespace: clip(namespace, maxName), Name: clip(name, maxName)}
		e.About, e.Cluster = e.Key, clip(text, maxText)
		e.UID, e.RV, e.Text = clip(uid, maxWord), clip(rv, maxWord), clip(text, maxText)
		e.Change, e.Outcome = clip(text, maxWord), clip(text, maxWord)
		require.Equal(t, e, got.Event)
		require.Equal(t, d-int64(n), got.order)
	})
}

// A quiet track keeps its events, however busy another one is, and the memory stays within its
// limit.
func TestABusyTrackLeavesAQuietOneAlone(t *testing.T) {
	const size = 64 << 10
	r := New(size)
	quiet, busy := r.Track(Label{Name: "quiet"}), r.Track(Label{Name: "busy"})
	for n := range 10 {
		quiet.Record(&Event{Kind: Turned, Attempt: n + 1})
	}
	for n := range 100_000 {
		busy.Record(&Event{Kind: Applied, Key: object.Key{Namespace: "shop", Name: fmt.Sprint("web-", n)}, Position: uint64(n)})
	}
	require.Len(t, r.Entries(func(e *Entry) bool { return e.Name == "quiet" }), 10)
	kept := r.Entries(func(e *Entry) bool { return e.Name == "busy" })
	require.Greater(t, len(kept), 1000)
	for n, e := range kept { // the last ones, without a gap
		require.Equal(t, 100_000-len(kept)+n, int(e.Position))
	}
	s := r.Status()
	require.Equal(t, size, s.Bytes)
	require.EqualValues(t, 100_000-len(kept), s.Lost)
	runtime.KeepAlive(quiet)
}

func TestTracksAreFreedWithTheirOwners(t *testing.T) {
	r := New(8 * pieceSize)
	for range 100 {
		r.Track(Label{Name: "gone"}).Record(&Event{Kind: Turned})
	}
	kept := r.Track(Label{Name: "kept"})
	require.Eventually(t, func() bool {
		runtime.GC()
		for range 1000 { // displaces the events of the others
			kept.Record(&Event{Kind: Turned, Text: "something that takes room"})
		}
		return len(r.Status().Tracks) == 1
	}, time.Minute, time.Millisecond)
	runtime.KeepAlive(kept)
}

func TestMoreTracksThanPieces(t *testing.T) {
	r := New(4 * pieceSize)
	var tracks []*Track
	for n := range 10 {
		tracks = append(tracks, r.Track(Label{Name: fmt.Sprint(n)}))
	}
	for round := range 1000 {
		for _, track := range tracks {
			track.Record(&Event{Kind: Turned, Attempt: round + 1})
		}
	}
	require.Equal(t, 4*pieceSize, r.Status().Bytes)
	require.NotEmpty(t, r.Entries(nil))
	runtime.KeepAlive(tracks)
}

func TestResize(t *testing.T) {
	r := New(16 * pieceSize)
	track := r.Track(Label{})
	fill := func() {
		for n := range 10_000 {
			track.Record(&Event{Kind: Turned, Attempt: n})
		}
	}
	fill()
	r.Resize(2 * pieceSize)
	require.Equal(t, 2*pieceSize, r.Status().Bytes)
	last := r.Entries(nil)
	require.Equal(t, 9999, last[len(last)-1].Attempt)
	r.Resize(0)
	fill()
	require.Empty(t, r.Entries(nil))
	r.Resize(4 * pieceSize)
	fill()
	require.Equal(t, 4*pieceSize, r.Status().Bytes)
	require.NotEmpty(t, r.Entries(nil))
}

func TestNothingIsRecordedWithoutMemory(t *testing.T) {
	r := New(0)
	track := r.Track(Label{Name: "pods"})
	track.Record(&Event{Kind: Turned})
	r.Resize(1)
	track.Record(&Event{Kind: Turned})
	require.Empty(t, r.Entries(nil))
	require.Zero(t, r.Status().Bytes)
	require.Empty(t, r.Timeline("", object.Key{}))
}

func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(DefaultSize)
		track := r.Track(Label{Role: Controller, Name: "shops"})
		for n := range 100 {
			track.Record(&Event{Kind: Taken, Took: time.Duration(n+1) * time.Millisecond})
		}
		s := r.Status().Tracks[0].Stages
		require.Len(t, s, 1)
		require.Equal(t, Waiting, s[0].Stage)
		require.EqualValues(t, 100, s[0].Minute.Count)
		require.InEpsilon(t, 50*time.Millisecond, s[0].Minute.P50, 0.3)
		require.InEpsilon(t, 90*time.Millisecond, s[0].Minute.P90, 0.3)
		require.InEpsilon(t, 100*time.Millisecond, s[0].Minute.Max, 0.5)
		time.Sleep(2 * time.Minute)
		s = r.Status().Tracks[0].Stages
		require.Zero(t, s[0].Minute.Count)
		require.EqualValues(t, 100, s[0].Hour.Count)
		time.Sleep(2 * time.Hour)
		require.Zero(t, r.Status().Tracks[0].Stages[0].Hour)
	})
}

func TestBuckets(t *testing.T) {
	before := time.Duration(0)
	for b := range buckets {
		from, to := bounds(b)
		require.Equal(t, before, from, "bucket %d", b)
		require.Greater(t, to, from)
		require.Equal(t, b, bucket(from))
		require.Equal(t, b, bucket(to-1))
		before = to
	}
	require.Greater(t, before, time.Hour)
	require.Equal(t, 0, bucket(-1))
	require.Equal(t, buckets-1, bucket(1<<62))
}

// The timeline includes the call of a handler for many changes in a row, found by the position of a
// change, but not a call about another informer.
func TestTimeline(t *testing.T) {
	r := New(DefaultSize)
	pods, nodes := r.Track(Label{Role: Informer, Name: "pods"}), r.Track(Label{Role: Informer, Name: "nodes"})
	slow := r.Track(Label{Role: Handler, Name: "slow", Of: pods})
	other := r.Track(Label{Role: Handler, Name: "other", Of: nodes})
	work := r.Track(Label{Role: Controller, Name: "shops"})
	key := object.Key{Namespace: "shop", Name: "web-0"}
	moment := time.Unix(100, 0)
	at := func() time.Time { moment = moment.Add(time.Millisecond); return moment }
	pods.Record(&Event{At: at(), Kind: Applied, Key: object.Key{Name: "else"}, Position: 4})
	pods.Record(&Event{At: at(), Kind: Applied, Key: key, Position: 5, Change: "update", RV: "17", Received: 12345 * time.Microsecond})
	nodes.Record(&Event{At: at(), Kind: Applied, Key: key, Position: 9})
	slow.Record(&Event{At: at(), Kind: Told, Position: 4, Count: 4})
	slow.Record(&Event{At: at(), Kind: Told, After: 4, Position: 6, Count: 2, Took: 1500 * time.Nanosecond})
	other.Record(&Event{At: at(), Kind: Told, Position: 5, Count: 5})
	work.Record(&Event{At: at(), Kind: Asked, Key: key, Text: "updated"})
	work.Record(&Event{At: at(), Kind: Done, Key: key, Attempt: 2, Outcome: "error", Text: "no shop", Took: time.Second})
	work.Record(&Event{At: at(), Kind: Done, Key: object.Key{Name: "else"}})
	var lines []string
	for _, e := range r.Timeline("pods", key) {
		lines = append(lines, fmt.Sprintf("%s %s: %s", e.Role, e.Name, e.What()))
	}
	require.Equal(t, strings.TrimSpace(`
informer pods: applied shop/web-0 update rv 17 12.3ms after it was read
handler slow: told 2 in 1.5µs
controller shops: asked shop/web-0: updated
controller shops: done shop/web-0 attempt 2 error in 1s: no shop`), strings.Join(lines, "\n"))
	require.Len(t, r.Timeline("", key), 5)

	busy := r.Busiest(time.Unix(0, 0), 2)
	require.Len(t, busy, 2)
	require.Equal(t, 1, busy[0].Count)
	var dump strings.Builder
	require.NoError(t, r.Dump(&dump))
	require.Contains(t, dump.String(), "the last 9 events; 0 older ones")
	runtime.KeepAlive([]*Track{pods, nodes, slow, other, work})
}

func TestConcurrentUse(t *testing.T) {
	r := New(16 * pieceSize)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 0))
			for range 50 {
				track := r.Track(Label{Role: Informer, Name: fmt.Sprint(n)})
				for range 100 {
					track.Record(&Event{Kind: Applied, Text: strings.Repeat("x", random.IntN(300))})
				}
				r.Entries(nil)
				r.Status()
				r.Resize(random.IntN(20) * pieceSize)
			}
		})
	}
	all.Wait()
	r.Resize(2 * pieceSize)
	require.LessOrEqual(t, r.Status().Bytes, 2*pieceSize)
}

func BenchmarkRecord(b *testing.B) {
	r := New(DefaultSize)
	track := r.Track(Label{Role: Informer, Name: "pods"})
	e := Event{
		At: time.Now(), Kind: Applied, Key: object.Key{Namespace: "namespace-17", Name: "web-5d78c9869d-abcde"},
		UID: "0f8fad5b-d9cb-469f-a165-70867728950e", RV: "123456789", Change: "update", Bytes: 4000,
		Received: time.Millisecond, Decoded: 900 * time.Microsecond, Queued: 800 * time.Microsecond,
	}
	b.ReportAllocs()
	for b.Loop() {
		e.Position++
		track.Record(&e)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		text, informer string
		want           bool
	}{
		{"pods", "pods", true},
		{"pods", "pods in namespace shop", true},
		{"pods in namespace shop", "pods in namespace shop", true},
		{"deployments", "deployments.apps in namespace shop", true},
		{"pod", "pods", true},
		{"po", "pods in namespace shop", true},
		{"deploy", "deployments.apps in namespace shop", true},
		{"deployment.apps", "deployments.apps in namespace shop", true},
		{"deployment.app", "deployments.apps", false},
		{"deployment.apps", "deployments", false},
		{"networkpolicy", "networkpolicies.networking.k8s.io", true},
		{"ingress", "ingresses.networking.k8s.io", true},
		{"node", "nodees", false},
		{".apps", "es.apps", false},
		{".", "es", false},
		{"none", " of a name", false},
		{"pod", "podsecuritypolicies.policy", false},
		{"po in namespace shop", "pods in namespace shop", false},
		{"pods in namespace shop", "pods", false},
		{"", "pods", false},
		{"pods", "", false},
	} {
		require.Equal(t, c.want, Names(c.text, c.informer), "%q of %q", c.text, c.informer)
	}
}
