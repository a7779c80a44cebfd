package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
)

// Descriptor describes a controller: its name, its requirements, and how to create it.
type Descriptor struct {
	// Name is the controller's name in logs, flags and metrics, such as "replicaset-controller".
	Name string

	// Aliases are alternative names accepted by the flag, such as "replicaset".
	Aliases []string

	// DisabledByDefault excludes the controller from "*".
	DisabledByDefault bool

	// Requires lists the resources that the controller needs; if the server lacks one, the controller is
	// skipped. An empty version matches any version.
	Requires []object.GVR

	// New creates the controller, using informers and clients from c. It is called once per Run, before any
	// controller runs, and must not block. If it returns neither a controller nor an error, the controller
	// has declined to run in this configuration.
	New func(c *Context) (manager.Runnable, error)
}

// Registry contains all of a program's controllers. Create it with [NewRegistry].
type Registry struct {
	descriptors []Descriptor
	names       map[string]string // maps names and aliases to names
}

// NewRegistry returns a registry of controllers, which are created and started in the given order. It fails
// if two controllers have the same name, if one lacks a name or New, or if the API does not accept a name
// in events. A valid name is an optional DNS name and a slash, followed by at most 63 letters, digits, "-",
// "_" and ".".
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
				return nil, fmt.Errorf("controller %d, %q: %q cannot be a name: it has a special meaning in a list of controllers", i, d.Name, name)
			}
			if other, taken := r.names[name]; taken {
				return nil, fmt.Errorf("controller %q: %q means %q already", d.Name, name, other)
			}
			r.names[name] = d.Name
		}
	}
	return r, nil
}

// Names returns the names of all controllers, in order.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.descriptors))
	for _, d := range r.descriptors {
		names = append(names, d.Name)
	}
	return names
}

// Select parses a list of controllers such as "*,-foo,bar". It selects the listed controllers, except
// those with a leading minus. "*" means all controllers that are not disabled by default. Order does not
// matter, an empty list means "*", and aliases are accepted. Select returns the names in registry order.
//
// If a name is unknown, or a controller is both selected and excluded, Select returns an error that
// lists the names.
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
			return nil, fmt.Errorf("controllers %q: unknown name %q: want one of %s", list, alias, strings.Join(r.Names(), ", "))
		}
		if before, again := wanted[name]; again && before == unwanted {
			return nil, fmt.Errorf("controllers %q: %q is both selected and excluded: remove one", list, name)
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

// Usage returns the help text for a flag whose value is passed to Select.
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
