package laws

import (
	"encoding/json"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// A file that the server has contradicted is removed at once: a later process that starts with it might
// meet a server that can no longer contradict it (C02).
func TestC02_ContradictedSnapshotIsRemoved(t *testing.T) {
	type world struct {
		*rig
		rv string // of the file
	}
	for name, c := range map[string]struct {
		meanwhile func(w world)
		running   bool // whether meanwhile is called while an informer runs
	}{
		"the history has expired":                {func(w world) { w.delete("b"); w.srv.Compact() }, false},
		"the history went back":                  {func(w world) { w.restore() }, false},
		"the history is another of that version": {func(w world) { w.restore(); w.put(pod("a", "x=y")) }, false},
		"the history is another, with less":      {func(w world) { w.restore(); w.other() }, false},
		"the history goes back":                  {func(w world) { w.restore(); settle(10 * time.Minute) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.put(pod("a"))
				r.put(pod("b"))
				r.backup = r.srv.Snapshot()
				r.put(pod("c"))
				opts := sharedinformer.Options{Snapshot: snapshot.In(dir, snapshot.Options{Interval: 24 * time.Hour})}
				first := r.begin(dir, opts)
				r.untilSynced(first)
				if !c.running {
					first.stop()
				} else {
					settle(6 * time.Hour)
				}
				require.Len(t, files(t, dir), 1)
				before, err := os.ReadFile(files(t, dir)[0])
				require.NoError(t, err)
				c.meanwhile(world{r, first.Cache().RV()})
				if !c.running {
					first = r.begin(dir, opts)
				}
				r.untilSynced(first)
				require.False(t, first.Status().Reflector.Resumed)
				settle(time.Second)
				for _, file := range files(t, dir) { // as a kill -9 would leave the files
					now, err := os.ReadFile(file)
					require.NoError(t, err)
					require.NotEqual(t, before, now)
				}
				settle(25 * time.Hour / 5)
				require.Len(t, files(t, dir), 1, "and it is replaced soon")
				first.stop()
				third := r.begin(dir, opts)
				r.untilSynced(third)
				require.True(t, third.Status().Reflector.Resumed)
				third.stop()
			})
		})
	}
}

// hostilePod is a pod type whose methods fail on demand.
type hostilePod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// mildPod is a hostilePod without the methods.
type mildPod hostilePod

// hostilePods holds the functions that the methods call.
var hostilePods struct{ read, write atomic.Pointer[func()] }

func (p *hostilePod) DeepCopyObject() kruntime.Object { return new(*p) }

func (p *hostilePod) UnmarshalJSON(raw []byte) error {
	if do := hostilePods.read.Load(); do != nil {
		(*do)()
	}
	return json.Unmarshal(raw, (*mildPod)(p))
}

func (p *hostilePod) MarshalJSON() ([]byte, error) {
	if do := hostilePods.write.Load(); do != nil {
		(*do)()
	}
	return json.Marshal((*mildPod)(p))
}

// If methods of a type panic or end their goroutine, the informer has to list, or the file is not
// written, and a message names the type (C02).
func TestC02_MethodsThatFailCostTheSnapshot(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	for name, do := range map[string]func(){"panicked": func() { panic("oh") }, "called runtime.Goexit": runtime.Goexit} {
		for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
			t.Run(name+", "+store.String(), func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					r.fill(20)
					defer hostilePods.read.Store(nil)
					defer hostilePods.write.Store(nil)
					opts := sharedinformer.Options{Store: store, Snapshot: snapshot.In(t.TempDir(), snapshot.Options{})}
					run := func() (*sharedinformer.Informer[*hostilePod], func()) {
						i := newInformer[*hostilePod](rest.ResourceForKind[*hostilePod](r.client, kind).Source(), opts)
						return i, r.run(i)
					}
					first, stop := run()
					require.NoError(t, first.WaitForSync(r.ctx))
					stop()
					require.Nil(t, first.Status().Snapshot.Failure)
					require.Len(t, files(t, opts.Snapshot.Path()), 1)

					var once sync.Once // the list must be readable
					fail := func() {
						fails := false
						once.Do(func() { fails = true })
						if fails {
							do()
						}
					}
					if store == sharedinformer.Whole {
						hostilePods.read.Store(&fail)
					}
					second, stop := run()
					require.NoError(t, second.WaitForSync(r.ctx))
					require.Equal(t, 20, second.Cache().Len())
					if store == sharedinformer.Whole {
						require.Contains(t, second.Status().Snapshot.Unused, "the file is damaged: reading a *laws.hostilePod "+name)
					}
					hostilePods.read.Store(nil)
					hostilePods.write.Store(&do) // a file may also be written before the stop
					r.put(pod("new"))
					settle(time.Second)
					stop()
					if store == sharedinformer.Whole {
						require.ErrorContains(t, second.Status().Snapshot.Failure, "writing a *laws.hostilePod "+name)
					}
				})
			})
		}
	}
}
