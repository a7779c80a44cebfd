package wire

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// glance is the head of an object that is not decoded, for who decides whether it is wanted.
// Its texts lie in the bytes of the object. It belongs to one goroutine, and is used for one
// object after the other.
type glance struct {
	wanted func(object.Head) bool
	at     *decoder

	object.Version
	item frame.Item

	more   bool // what follows is known
	head   head.Head
	labels map[string]string
	notes  map[string]string // annotations
	whole  object.Object     // takes the place of the head where that is unusual
	err    error             // why nobody can tell
}

// newGlance returns a glance for the goroutine that calls; nil where all objects are wanted.
func newGlance(d *decoder) *glance {
	if d.wanted == nil {
		return nil
	}
	return &glance{wanted: d.wanted, at: d}
}

// passes reports whether an object is not wanted, and which one it is. What cannot be decoded does
// not pass: its decoder tells.
func (g *glance) passes(i frame.Item) (v object.Version, passes bool) {
	if g == nil {
		return v, false
	}
	defer g.clean()
	g.item = i
	if g.Version, passes = g.at.identify(i); !passes {
		if g.decode(); g.err != nil {
			return v, false
		}
		g.Version = object.VersionOf(g.whole)
	}
	if g.wanted(g) || g.err != nil {
		return v, false
	}
	return g.Version, true
}

// clean has the glance refer to nothing.
func (g *glance) clean() {
	g.head.Reset()
	clear(g.labels)
	clear(g.notes)
	*g = glance{wanted: g.wanted, at: g.at, head: g.head, labels: g.labels, notes: g.notes}
}

// decode makes the object, of which the head is unusual.
func (g *glance) decode() {
	g.more = true
	if g.whole, g.err = g.at.decodeWhole(g.item); g.err == nil && g.whole.GetName() == "" {
		g.err = ErrNoName
	}
	if g.err != nil {
		g.whole = new(metav1.PartialObjectMetadata)
	}
}

// rest reads what has not been looked at. It returns the object where that has to say it.
func (g *glance) rest() (instead object.Object) {
	if !g.more {
		g.more, g.head.WantsAll = true, true
		if !g.at.readHead(&g.head, g.item) {
			g.decode()
		}
	}
	return g.whole
}

// GetNamespace implements object.Head, as do the methods that follow.
func (g *glance) GetNamespace() string { return g.Key.Namespace }

// GetName is known.
func (g *glance) GetName() string { return g.Key.Name }

// GetUID is known.
func (g *glance) GetUID() types.UID { return g.UID }

// GetResourceVersion is known.
func (g *glance) GetResourceVersion() string { return g.RV }

// GetGeneration looks further.
func (g *glance) GetGeneration() int64 {
	if o := g.rest(); o != nil {
		return o.GetGeneration()
	}
	return g.head.Generation
}

// GetDeletionTimestamp looks further.
func (g *glance) GetDeletionTimestamp() *metav1.Time {
	if o := g.rest(); o != nil {
		return o.GetDeletionTimestamp()
	}
	return g.head.Deleted
}

// GetLabels looks further.
func (g *glance) GetLabels() map[string]string {
	if o := g.rest(); o != nil {
		return o.GetLabels()
	}
	return asMap(&g.labels, g.head.Labels)
}

// GetAnnotations looks further.
func (g *glance) GetAnnotations() map[string]string {
	if o := g.rest(); o != nil {
		return o.GetAnnotations()
	}
	return asMap(&g.notes, g.head.Annotations)
}

// GetOwnerReferences looks further.
func (g *glance) GetOwnerReferences() []metav1.OwnerReference {
	if o := g.rest(); o != nil {
		return o.GetOwnerReferences()
	}
	return g.head.Owners
}

// asMap returns pairs as a map, in the memory of the one for the object before.
func asMap(room *map[string]string, pairs []head.Label) map[string]string {
	if *room == nil && len(pairs) > 0 {
		*room = make(map[string]string, len(pairs))
	}
	for _, p := range pairs {
		(*room)[p.Key] = p.Value
	}
	return *room
}
