package churn

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/wire"
)

const (
	churnPage      = 500
	mostStates     = 100000    // maximum number of objects whose last state is kept
	mostStateBytes = 128 << 20 // maximum total size of these states, in bytes
	mostKeys       = 10000     // objects counted individually
	mostFields     = 2000      // fields counted individually
	mostManagers   = 200       // maximum number of managers counted individually; lower per field
	mostOfField    = 8
	mostPath       = 200 // maximum length of a field path
)

type (
	untyped       = *unstructured.Unstructured
	packedUntyped = *wire.Packed
)

// churning compares the object in each event with its previous state. Only the reflector's reading goroutine
// may use it until the reflector has stopped.
type churning struct {
	at        cluster.Target
	by        *wire.Packer
	synced    chan struct{} // closed after the initial list
	reflector reflector.Status

	states map[object.Key]packedUntyped
	bytes  int // of all states
	roomy  bool

	kinds    churnKinds
	objects  counter
	fields   counter
	managers counter
	of       map[string]*counter // managers by field
	savings  savings
}

// churnKinds counts events by kind.
type churnKinds struct {
	Listed     int `json:"listed"`     // number of objects in the initial list
	Events     int `json:"events"`     // sum of the counts below
	Bytes      int `json:"bytes"`      // as received
	Added      int `json:"added"`      //
	Changed    int `json:"changed"`    // updates that changed a field
	Deleted    int `json:"deleted"`    //
	Resent     int `json:"resent"`     // repeated the same version
	Unmoving   int `json:"unmoving"`   // updates that changed only managedFields and the resource version
	Unheld     int `json:"unheld"`     // updates of objects whose previous state did not fit in memory
	Unreadable int `json:"unreadable"` // updates that could not be compared
	Missed     int `json:"missed"`     // objects that a later list showed to have changed, appeared or disappeared
}

func newChurning(at cluster.Target, keep []string) (*churning, error) {
	measured, err := newSavings(at.Mapping.Kind, keep)
	if err != nil {
		return nil, exit.Usage("--keep: %w", err)
	}
	return &churning{
		at: at, by: wire.NewPacker(wire.NewPool()), synced: make(chan struct{}), states: map[object.Key]packedUntyped{}, roomy: true,
		savings: measured, of: map[string]*counter{},
		objects: counter{most: mostKeys}, fields: counter{most: mostFields}, managers: counter{most: mostManagers},
	}, nil
}

func (c *churning) isSynced() bool {
	select {
	case <-c.synced:
		return true
	default:
		return false
	}
}

// hold keeps a state if there is room for it.
func (c *churning) hold(o packedUntyped) bool {
	key := object.KeyOf(o)
	c.drop(key)
	if len(c.states) >= mostStates || c.bytes+o.Size() > mostStateBytes {
		c.roomy = false
		return false
	}
	c.states[key] = o
	c.bytes += o.Size()
	return true
}

func (c *churning) drop(key object.Key) {
	if was, had := c.states[key]; had {
		c.bytes -= was.Size()
		delete(c.states, key)
	}
}

// event counts one event.
func (c *churning) event(e *wire.Event[packedUntyped]) {
	c.kinds.Events++
	c.kinds.Bytes += e.Bytes
	key := object.KeyOf(e.Object)
	was, had := c.states[key]
	if e.Type != watch.Deleted && had && was.GetUID() == e.Object.GetUID() && was.GetResourceVersion() == e.Object.GetResourceVersion() {
		c.kinds.Resent++
		return
	}
	c.objects.add(object.FormatKey(key))
	if e.Type == watch.Deleted {
		c.kinds.Deleted++
		c.drop(key)
		c.other(e.Object)
		return
	}
	c.hold(e.Object)
	switch {
	case had && was.GetUID() == e.Object.GetUID():
		c.update(was, e.Object)
	case e.Type == watch.Added || had:
		c.kinds.Added++
		c.other(e.Object)
	default:
		c.kinds.Unheld++
		c.other(e.Object)
	}
}

// other counts an event that no predicate could drop: one that is not an update, or an update that cannot be
// compared.
func (c *churning) other(o packedUntyped) {
	if whole, err := o.Open(); err == nil {
		c.savings.event(nil, whole.(untyped), nil)
	}
}

// update counts the fields that an update changed.
func (c *churning) update(was, is packedUntyped) {
	old, err := was.Open()
	if err == nil {
		var now object.Object
		if now, err = is.Open(); err == nil {
			err = c.compare(old.(untyped), now.(untyped))
		}
	}
	if err != nil {
		c.kinds.Unreadable++
	}
}

func (c *churning) compare(old, now untyped) error {
	changes, err := diff.Between(old, now)
	if err != nil {
		return err
	}
	if old.GetGeneration() != now.GetGeneration() && len(changes) == 0 {
		changes = append(changes, diff.Change{Path: "metadata.generation", Had: true, Has: true})
	}
	c.savings.event(old, now, changes)
	by := ownersOf(old, now)
	if len(changes) == 0 {
		c.kinds.Unmoving++
		c.managers.add(by.last())
		return nil
	}
	c.kinds.Changed++
	wrote := map[string]bool{}
	for _, change := range changes {
		who := by.of(change.Path, change.Has)
		wrote[who] = true
		path := clipped(change.Path)
		if !c.fields.add(path) {
			continue
		}
		if c.of[path] == nil {
			c.of[path] = &counter{most: mostOfField}
		}
		c.of[path].add(who)
	}
	for who := range wrote {
		c.managers.add(who)
	}
	return nil
}

// clipped returns a copy of path, truncated to the maximum length. Unlike path, the copy does not keep the
// object in memory.
func clipped(path string) string {
	if len(path) <= mostPath {
		return strings.Clone(path)
	}
	end := mostPath
	for !utf8.RuneStart(path[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", path[:end], len(path))
}
