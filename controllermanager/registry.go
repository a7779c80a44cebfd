package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

// Descriptor says what a controller is called, what it needs, and how to make it.
type Descriptor struct {
	// Name is what logs, flags and metrics call it, such as
	// "replicaset-controller".
	Name string

	// Aliases are other names that the flag understands, such as "replicaset".
	Aliases []string

	// DisabledByDefault leaves it out of "*".
	DisabledByDefault bool

	// Requires are the resources without which it is skipped. An empty version
	// means any.
	Requires []object.GVR

	// New makes the controller, which asks c for its informers and clients. It is
	// called once in each Run, before any controller runs, and must not block. If it
	// returns neither a controller nor an error, it declines to run with this
	// configuration.
	New func(c *Context) (manager.Runnable, error)
}

// Registry holds all controllers of a program. Make it with NewRegistry.
type Registry struct {
	descriptors []Descriptor
	names       map[string]string // of every name and alias, the name
}

// NewRegistry returns a registry of controllers, which are made and started in this
// order. It fails if two have one name, and if one has none or cannot be made, or a name
// that the API refuses in events: that may be a DNS name and a slash, and has then 63 characters
// at most, of letters, digits, "-", "_" and ".".
func NewRegistry(descriptors ...Descriptor) (*Registry, error) {
	r := &Registry{descriptors: slices.Clone(descriptors), names: map[string]string{}}
	for i, d := range r.descriptors {
		if d.New == nil {
			return nil, fmt.Errorf("controller %d, %q: New is nil: there is nothing to run", i, d.Name)
		}
		if wrong := content.IsLabelKey(d.Name); d.Name != "" && len(wrong) > 0 {
			return nil, fmt.Errorf("controller %d: invalid event controller name %q: %s; choose another name", i, d.Name, strings.Join(wrong, "; "))
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			if name == "" || name == "*" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, ", ") {
				return nil, fmt.Errorf("controller %d, %q: %q cannot be a name: a list of controllers would mean something else by it", i, d.Name, name)
			}
			if other, taken := r.names[name]; taken {
				return nil, fmt.Errorf("controller %q: %q means %q already", d.Name, name, other)
			}
			r.names[name] = d.Name
		}
	}
	return r, nil
}

// Names returns the names of all controllers, in their order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.descriptors))
	for _, d := range r.descriptors {
		names = append(names, d.Name)
	}
	return names
}

// Select reads a list of controllers such as "*,-foo,bar": those named, without those
// with a minus before them. "*" stands for all that are not disabled by default. Order
// does not matter, an empty list means "*", and aliases are as good as names. Select
// returns names, in the order of the registry.
//
// If a name is unknown, or a controller is both wanted and not, Select fails and says
// what there is.
func (r *Registry) Select(list string) ([]string, error) {
	star, wanted := false, map[string]bool{}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		switch item {
		case "":
			continue
		case "*":
			star = true
			continue
		}
		alias, unwanted := strings.CutPrefix(item, "-")
		name, known := r.names[alias]
		if !known {
			return nil, fmt.Errorf("controllers %q: there is no %q, but %s", list, alias, strings.Join(r.Names(), ", "))
		}
		if before, again := wanted[name]; again && before == unwanted {
			return nil, fmt.Errorf("controllers %q: %q is both wanted and not: leave one out", list, name)
		}
		wanted[name] = !unwanted
	}
	star = star || strings.Trim(list, ", ") == ""
	var selected []string
	for _, d := range r.descriptors {
		want, named := wanted[d.Name]
		if want || !named && star && !d.DisabledByDefault {
			selected = append(selected, d.Name)
		}
	}
	return selected, nil
}

// Usage explains the list that Select reads, for a flag.
func (r *Registry) Usage() string {
	var all, off []string
	for _, d := range r.descriptors {
		name := d.Name
		if len(d.Aliases) > 0 {
			name += " (" + strings.Join(d.Aliases, ", ") + ")"
		}
		all = append(all, name)
		if d.DisabledByDefault {
			off = append(off, d.Name)
		}
	}
	usage := "the `controllers` to run: 'foo' runs foo, '-foo' does not, '*' runs all that are not disabled by default.\nAll: " + strings.Join(all, ", ")
	if len(off) > 0 {
		usage += "\nDisabled by default: " + strings.Join(off, ", ")
	}
	return usage
}
