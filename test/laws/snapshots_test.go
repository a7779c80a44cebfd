package laws

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// lines is a log handler that records its lines of level warn.
type lines struct {
	mu     sync.Mutex
	warned []string
}

// all returns the lines.
func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.warned)
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *lines) WithGroup(string) slog.Handler                    { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.warned = append(l.warned, line)
	return nil
}

// lists returns the number of list requests that the server received.
func (r *rig) lists() int { return r.srv.Stats().Requests("list", "pods") }

// next is the informer of a later process.
type next struct {
	*sharedinformer.Informer[*corev1.Pod]
	heard  *recorder
	warned func() []string
	stop   func()
}

// begin runs an informer with snapshots in dir, as if in a separate process.
func (r *rig) begin(dir string, opts sharedinformer.Options) next {
	r.Helper()
	return r.beginOn(rest.ResourceFor[*corev1.Pod](r.client).Sharing(wire.NewPool()).Source(), dir, opts)
}

func (r *rig) beginOn(from source.ListerWatcher, dir string, opts sharedinformer.Options) next {
	r.Helper()
	if opts.Snapshot == nil {
		opts.Snapshot = snapshot.In(dir, snapshot.Options{})
	}
	log := new(lines)
	opts.Logger = slog.New(log)
	i := newInformer[*corev1.Pod](from, opts)
	h := record(r, i)
	i.AddHandler(h)
	return next{i, h, log.all, r.run(i)}
}

// untilSynced waits for the sync and returns the recorded events.
func (r *rig) untilSynced(n next) []string {
	r.Helper()
	require.NoError(r, n.WaitForSync(r.ctx))
	require.Equal(r, r.truth(), cached(n.Informer))
	require.Equal(r, r.truth(), n.heard.holds())
	heard := n.heard.heard()
	slices.Sort(heard)
	return heard
}

// files returns the snapshots in a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.snapshot*"))
	require.NoError(t, err)
	return found
}

// An informer starts with the snapshot of its predecessor. Whatever happened in between, the informer is
// correct once it has synced, and no handler sees objects that were deleted.
func TestC02_InformerStartsFromItsSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(r *rig)
		heard     []string
		resumed   bool
		streamed  int // number of initial states that the server streamed
	}{
		"nothing has happened":           {func(*rig) {}, []string{"add a initial", "add b initial", "add c initial"}, true, 0},
		"other things have happened":     {func(r *rig) { r.other() }, []string{"add a initial", "add b initial", "add c initial"}, true, 0},
		"one is gone":                    {func(r *rig) { r.delete("b") }, []string{"add a initial", "add c initial"}, true, 0},
		"one is new, and one another":    {func(r *rig) { r.put(pod("d")); r.put(pod("a", "x=y")) }, []string{"add a initial", "add b initial", "add c initial", "add d initial"}, true, 0},
		"one has come back":              {func(r *rig) { r.delete("b"); r.put(pod("b")); r.delete("c") }, []string{"add a initial", "add b initial"}, true, 0},
		"all are gone":                   {func(r *rig) { r.delete("a"); r.delete("b"); r.delete("c") }, nil, true, 0},
		"the history has expired":        {func(r *rig) { r.put(pod("a", "x=y")); r.delete("b"); r.srv.Compact() }, []string{"add a initial", "add c initial"}, false, 1},
		"the data was restored":          {func(r *rig) { r.restore() }, []string{"add a initial", "add b initial"}, false, 1},
		"the server does not answer yet": {func(r *rig) { r.unreachable(20 * time.Second) }, []string{"add a initial", "add b initial", "add c initial"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(pod("a"))
				r.put(pod("b"))
				r.backup = r.srv.Snapshot()
				r.put(pod("c"))
				first := r.begin(dir, sharedinformer.Options{})
				r.untilSynced(first)
				first.stop()
				require.Len(t, files(t, dir), 1)
				c.meanwhile(r)
				lists, watches := r.lists(), r.srv.Stats().Requests("watch", "pods")
				second := r.begin(dir, sharedinformer.Options{})
				require.Equal(t, c.heard, r.untilSynced(second))
				s := second.Status()
				require.Equal(t, c.resumed, s.Reflector.Resumed)
				require.EqualValues(t, c.streamed, s.Reflector.Lists)
				require.LessOrEqual(t, r.srv.Stats().Requests("watch", "pods")-watches, 2)
				if c.resumed && s.Reflector.Failures == 0 {
					require.LessOrEqual(t, r.lists()-lists, 2, "two pages of one item tell the version")
				}
				rv := r.put(pod("e"))
				require.NoError(t, second.WaitForRV(r.ctx, rv))
				require.Equal(t, []string{"add e"}, second.heard.heard())
				second.stop()
			})
		})
	}
}

// other changes an object that is not a pod.
func (r *rig) other() {
	_, err := r.srv.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}})
	require.NoError(r, err)
}

// restore resets the server to the backup.
func (r *rig) restore() { r.srv.Restore(r.backup) }

// unreachable stops the server for d.
func (r *rig) unreachable(d time.Duration) {
	r.srv.Down()
	r.runs.Go(func() {
		time.Sleep(d)
		r.srv.Up()
	})
}

// Until the server has confirmed the snapshot, the informer is not synced, its cache is empty and no
// handler sees its objects. The objects are available on request.
func TestC02_SnapshotIsNotTrustedUntilConfirmed(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(pod("a"))
		first := r.begin(dir, sharedinformer.Options{})
		r.untilSynced(first)
		require.Equal(t, 1, first.Stale().Len(), "the cache")
		first.stop()
		r.put(pod("b"))
		r.srv.Down()
		second := r.begin(dir, sharedinformer.Options{SyncPatience: -1})
		settle(time.Minute)
		require.False(t, second.HasSynced())
		require.Empty(t, second.heard.heard())
		require.Zero(t, second.Cache().Len())
		require.Empty(t, second.Cache().RV())
		names := []string{}
		for p := range second.Stale().All() {
			names = append(names, p.Name)
		}
		require.Equal(t, []string{"a"}, names)
		require.Equal(t, reflector.BackingOff, second.Status().Reflector.State)
		require.ErrorContains(t, second.Unsynced(), "pods")
		r.srv.Up()
		require.Equal(t, []string{"add a initial", "add b initial"}, r.untilSynced(second))
		require.Equal(t, 2, second.Stale().Len())
		second.stop()
	})
}

// A file of another origin or without content causes a list and one line in the log.
func TestC02_AForeignSnapshotCostsAList(t *testing.T) {
	only := func(fields wire.Fields) func(r *rig, dir string) next {
		return func(r *rig, dir string) next {
			return r.beginOn(r.source().Keep(fields).Source(), dir, sharedinformer.Options{})
		}
	}
	slim := func(p *corev1.Pod) (*corev1.Pod, error) { p.Annotations = nil; return p, nil }
	transformed := func(version string) func(r *rig, dir string) next {
		return func(r *rig, dir string) next {
			return r.beginOn(reflector.Transformed(rest.ResourceFor[*corev1.Pod](r.client).Source(), slim), dir, sharedinformer.Options{TransformVersion: version})
		}
	}
	plain := func(r *rig, dir string) next { return r.begin(dir, sharedinformer.Options{}) }
	change := func(how func(raw []byte) []byte) func(r *rig, dir string) {
		return func(r *rig, dir string) {
			for _, name := range files(r, dir) {
				raw, err := os.ReadFile(name)
				require.NoError(r, err)
				require.NoError(r, os.WriteFile(name, how(raw), 0o600))
			}
		}
	}
	for name, c := range map[string]struct {
		first, second func(r *rig, dir string) next
		meanwhile     func(r *rig, dir string)
		says          string
		resumed       bool
	}{
		"other fields":         {plain, only(wire.WithoutManagedFields), nil, "", false},
		"the same fields":      {only(wire.WithoutManagedFields), only(wire.WithoutManagedFields), nil, "", true},
		"another transform":    {transformed("slim 1"), transformed("slim 2"), nil, "", false},
		"the same transform":   {transformed("slim 1"), transformed("slim 1"), nil, "", true},
		"an unnamed transform": {transformed("slim 1"), transformed(""), nil, "set TransformVersion", false},
		"no transform":         {transformed("slim 1"), plain, nil, "", false},
		"cut off":              {plain, plain, change(func(raw []byte) []byte { return raw[:len(raw)/2] }), "damaged", false},
		"empty":                {plain, plain, change(func(raw []byte) []byte { return nil }), "damaged", false},
		"one bit":              {plain, plain, change(func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }), "damaged", false},
		"another version": {plain, plain, change(func(raw []byte) []byte {
			return []byte(strings.Replace(string(raw), "snapshot 2", "snapshot 1", 1))
		}), "damaged", false},
		"too old":         {plain, plain, func(*rig, string) { time.Sleep(25 * time.Hour) }, "too old", false},
		"another cluster": {plain, plain, func(r *rig, _ string) { r.another() }, "another cluster", false},
		"a narrower source": {plain, func(r *rig, dir string) next {
			return r.beginOn(r.source().Namespace("shop").Source(), dir, sharedinformer.Options{})
		}, nil, "", false},
		"all labels": {plain, func(r *rig, dir string) next {
			return r.begin(dir, sharedinformer.Options{LabelSelector: labels.Everything()})
		}, nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, apiservertest.Options{NamespaceLifecycle: true}, func(r *rig) {
				r.namespace("shop")
				r.put(pod("a"))
				first := c.first(r, dir)
				r.untilSynced(first)
				first.stop()
				require.Empty(t, first.warned())
				require.Len(t, files(t, dir), 1)
				if c.meanwhile != nil {
					c.meanwhile(r, dir)
				}
				second := c.second(r, dir)
				require.Equal(t, []string{"add a initial"}, r.untilSynced(second))
				require.Equal(t, c.resumed, second.Status().Reflector.Resumed)
				if c.says == "" {
					require.Empty(t, second.warned())
				} else {
					require.Len(t, second.warned(), 1)
					require.Contains(t, second.warned()[0], c.says)
				}
				second.stop()
				third := c.second(r, dir)
				r.untilSynced(third)
				require.Equal(t, c.says != "set TransformVersion", third.Status().Reflector.Resumed, "the file was replaced")
				third.stop()
			})
		})
	}
}

// namespace creates a namespace.
func (r *rig) namespace(name string) {
	_, err := r.srv.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	require.NoError(r, err)
}

// another turns the server into another cluster at the same address with the same pods. The cluster
// differs only in kube-system.
func (r *rig) another() {
	system := metav1.ObjectMeta{Name: metav1.NamespaceSystem}
	require.NoError(r, r.srv.Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), object.Key{Name: system.Name}))
	_, err := r.srv.Put(&corev1.Namespace{ObjectMeta: system})
	require.NoError(r, err)
	r.connect()
}

// In a chain of processes with snapshots, each process is correct, whatever happened before.
func TestC02_AnyNumberOfRestarts(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			random := rand.New(rand.NewPCG(seed, 7))
			inBubble(t, apiservertest.Options{Seed: seed, History: 20}, func(r *rig) {
				change := func() {
					name := string(rune('a' + random.IntN(8)))
					if _, ok := r.truth()["shop/"+name]; ok && random.IntN(3) == 0 {
						r.delete(name)
					} else {
						r.put(pod(name, fmt.Sprintf("n=%d", random.IntN(1000))))
					}
				}
				resumed := 0
				for range 12 {
					var opts sharedinformer.Options
					if random.IntN(2) == 0 {
						opts.Store = sharedinformer.Packed // the files are the same
					}
					if random.IntN(3) == 0 {
						r.srv.Faults().Add(apiservertest.Fault{Verb: "watch", Count: 1 + random.IntN(2), Do: []apiservertest.Action{
							[]apiservertest.Action{apiservertest.Cut{AfterBytes: 300}, apiservertest.Duplicate{Every: 2}, apiservertest.Fail{Code: 500}, apiservertest.NoBookmarks{}, apiservertest.Silence{}}[random.IntN(5)],
						}})
					}
					i := r.begin(dir, opts)
					r.untilSynced(i)
					if i.Status().Reflector.Resumed {
						resumed++
					}
					for range random.IntN(10) {
						change()
						time.Sleep(time.Duration(random.Int64N(int64(time.Minute))))
					}
					settle(time.Minute + firstBackOff)
					require.Equal(t, r.truth(), cached(i.Informer))
					require.Equal(t, r.truth(), i.heard.holds())
					for _, line := range i.warned() {
						require.True(t, strings.HasPrefix(line, "reflector "), "%s: a fault costs a list at most", line)
					}
					i.stop()
					r.srv.Faults().Clear()
					for range random.IntN(5) {
						change()
						if random.IntN(3) == 0 {
							r.other()
						}
					}
					if random.IntN(6) == 0 {
						r.srv.Compact()
					}
				}
				require.NotZero(t, resumed)
			})
		})
	}
}

// Objects of every form are restored from every encoding, in either store.
func TestC02_SnapshotsOfEveryForm(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	for _, format := range []string{"protobuf and JSON", "CBOR"} {
		for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
			t.Run(format+" "+store.String(), func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					if format == "CBOR" {
						r.speakCBOR()
					}
					for n := range 50 {
						r.put(pod(fmt.Sprint(n), "app=web"))
					}
					restarted[*corev1.Pod](r, rest.ResourceFor[*corev1.Pod](r.client).Source(), store)
					restarted[object.Object](r, rest.ResourceForKind[object.Object](r.client, kind).Source(), store)
					restarted[*unstructured.Unstructured](r, rest.ResourceForKind[*unstructured.Unstructured](r.client, kind).Source(), store)
					restarted[*metav1.PartialObjectMetadata](r, rest.ResourceForKind[*metav1.PartialObjectMetadata](r.client, kind).Source(), store)
				})
			})
		}
	}
}

// restarted runs an informer, and then another one that starts with its snapshot, and compares their
// objects.
func restarted[T object.Object](r *rig, from source.ListerWatcher, store sharedinformer.Store) {
	r.Helper()
	in := snapshot.In(r.TempDir(), snapshot.Options{})
	var before map[string]T
	for _, resumed := range []bool{false, true} {
		i := sharedinformer.New[T](from, sharedinformer.Options{Snapshot: in, Store: store})
		stop := r.run(i)
		require.NoError(r, i.WaitForSync(r.ctx))
		s := i.Status()
		require.Equal(r, resumed, s.Reflector.Resumed, "%+v", s.Snapshot)
		have := map[string]T{}
		for o := range i.Cache().All() {
			have[o.GetName()] = o
		}
		require.Len(r, have, 50)
		if before != nil {
			require.Equal(r, before, have)
		}
		before = have
		stop()
		require.Nil(r, i.Status().Snapshot.Failure)
	}
}

// Each namespace has its own file.
func TestC02_SnapshotsOfSeveralNamespaces(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.put(podIn("shop", "a"))
		r.put(podIn("bank", "b"))
		r.put(podIn("post", "c"))
		first := r.begin(dir, in("shop", "bank"))
		require.NoError(t, first.WaitForSync(r.ctx))
		first.stop()
		require.Len(t, files(t, dir), 2)
		r.delete("a")
		second := r.begin(dir, in("shop", "post"))
		require.NoError(t, second.WaitForSync(r.ctx))
		require.Equal(t, []string{"add c initial"}, second.heard.heard())
		s := second.Status()
		require.Equal(t, []bool{false, true}, []bool{s.Namespaces[0].Resumed, s.Namespaces[1].Resumed})
		require.NoError(t, second.SetNamespaces([]string{"bank", "shop"}))
		require.NoError(t, second.WaitForSync(r.ctx))
		require.Equal(t, []string{"add b initial", "delete c"}, sorted(second.heard.heard()))
		require.True(t, second.Status().Namespaces[0].Resumed)
		second.stop()
		require.Len(t, files(t, dir), 2, "what left before anything was due was not written")
	})
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// While an informer runs, it writes its file at the interval, neither more nor less often.
func TestC02_SnapshotsAreWrittenAtIntervals(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, apiservertest.Options{BookmarkPeriod: 24 * time.Hour}, func(r *rig) {
		r.put(pod("a"))
		i := r.begin(dir, sharedinformer.Options{Snapshot: snapshot.In(dir, snapshot.Options{Interval: time.Hour})})
		r.untilSynced(i)
		written := map[time.Time]bool{}
		for n := range 10*60 + 10 { // the longest interval is 66 minutes
			if n < 9*60 { // no changes after that
				r.put(pod("a", fmt.Sprintf("n=%d", n)))
			}
			settle(time.Minute)
			if s := i.Status().Snapshot; !s.Written.IsZero() {
				written[s.Written] = true
			} else {
				require.Less(t, n, 12)
			}
		}
		require.InDelta(t, 10, len(written), 1)
		s := i.Status().Snapshot
		require.Equal(t, dir, s.Directory)
		require.Positive(t, s.Bytes)
		require.Nil(t, s.Failure)
		i.stop()
		_, again := written[i.Status().Snapshot.Written]
		require.True(t, again, "nothing has changed since")
		all := slices.SortedFunc(maps.Keys(written), time.Time.Compare)
		for n := range len(all) - 1 {
			require.InDelta(t, time.Hour, all[n+1].Sub(all[n]), float64(7*time.Minute))
		}
	})
}

// If the file cannot be written, or belongs to another process, the informer works anyway, and logs the
// problem once.
func TestC02_AnInformerWorksWithoutItsSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		dir  func(t *testing.T) string
		says string
	}{
		"no directory": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			return filepath.Join(path, "dir")
		}, "not a directory"},
		"another process": {func(t *testing.T) string {
			path := t.TempDir()
			other := snapshot.In(path, snapshot.Options{})
			t.Cleanup(other.Use())
			_, err := other.Write(context.Background(), snapshot.Label{}, func(*snapshot.Writer) error { return nil })
			require.NoError(t, err)
			return path
		}, "is writing to this directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := c.dir(t)
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(pod("a"))
				var failures []*failure.Failure
				i := r.begin(dir, sharedinformer.Options{OnError: func(_ context.Context, f *failure.Failure) failure.Verdict {
					failures = append(failures, f)
					return failure.Retry
				}})
				r.untilSynced(i)
				for n := range 10 {
					r.put(pod("a", fmt.Sprintf("n=%d", n)))
					settle(5 * time.Minute)
				}
				require.Equal(t, r.truth(), cached(i.Informer))
				i.stop()
				require.Len(t, failures, 1)
				require.Equal(t, failure.PhaseSnapshot, failures[0].Phase)
				require.ErrorContains(t, failures[0], c.says)
				require.ErrorContains(t, i.Status().Snapshot.Failure, c.says)
				said := 0
				for _, line := range i.warned() {
					if strings.Contains(line, c.says) {
						said++
					}
				}
				require.GreaterOrEqual(t, said, 1)
				require.LessOrEqual(t, said, 2, "when it was read, and when it was written")
			})
		})
	}
}

// Secrets are not written unless the option says so.
func TestC02_SecretsAreNotWritten(t *testing.T) {
	for name, allowed := range map[string]bool{"by default": false, "if asked for": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				_, err := r.srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Data: map[string][]byte{"k": []byte("hunter2")}})
				require.NoError(t, err)
				in := snapshot.In(dir, snapshot.Options{Secrets: allowed})
				whole := newInformer[*corev1.Secret](rest.ResourceFor[*corev1.Secret](r.client).Source(), sharedinformer.Options{Snapshot: in})
				meta := newInformer[*metav1.PartialObjectMetadata](rest.ResourceForKind[*metav1.PartialObjectMetadata](r.client, corev1.SchemeGroupVersion.WithKind("Secret")).Source(), sharedinformer.Options{Snapshot: in})
				stops := []func(){r.run(whole), r.run(meta)}
				require.NoError(t, whole.WaitForSync(r.ctx))
				require.NoError(t, meta.WaitForSync(r.ctx))
				settle(time.Hour)
				for _, stop := range stops {
					stop()
				}
				require.Equal(t, allowed, len(files(t, dir)) == 2)
				require.Equal(t, allowed, whole.Status().Snapshot.Off == "")
				if !allowed {
					require.Empty(t, files(t, dir))
				}
			})
		})
	}
}
