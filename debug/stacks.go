package debug

import (
	"bytes"
	"fmt"
	"path"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/flight"
)

// Stack is the stack of one or more goroutines that are executing a handler or reconciler.
type Stack struct {
	Informer, Handler string   `json:",omitzero"` // if in a handler
	Controller        string   `json:",omitzero"` // if in a reconciler
	Count             int      // number of goroutines with this stack
	Frames            []string // innermost first, ending with the handler or reconciler, such as "main.wait (main.go:17)"
}

// Where returns the innermost frame in the program's own code, without the package path.
func (s *Stack) Where() string {
	if len(s.Frames) == 0 { // a process does not report such stacks, unless it is malicious
		return "an unknown function"
	}
	own := func(frame string) bool {
		first, _, nested := strings.Cut(frame, "/")
		return nested && strings.Contains(first, ".") || strings.HasPrefix(frame, "main.")
	}
	frame := s.Frames[max(0, slices.IndexFunc(s.Frames, own))]
	return frame[strings.LastIndex(frame, "/")+1:]
}

// Stacks contains the stacks of running handler and reconciler calls.
type Stacks struct{ Stacks []Stack }

// callers are the functions that call handlers and reconcilers.
var callers = []string{
	"github.com/millrace-dev/millrace/sharedinformer.(*delivery).call",
	"github.com/millrace-dev/millrace/controller.(*core).reconcile",
}

// profile returns the process's goroutines, in time proportional to their number.
func profile() ([]group, error) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil, err
	}
	return readGroups(&b)
}

// stacks returns the stacks for a handler, a controller or an informer's handlers, or all stacks if name
// is empty.
func stacks(name string) (*Stacks, error) {
	groups, err := profile()
	return stacksIn(groups, name), err
}

func stacksIn(groups []group, name string) *Stacks {
	all := &Stacks{}
	for _, g := range groups {
		s := Stack{Informer: g.labels["informer"], Handler: g.labels["handler"], Controller: g.labels["controller"], Count: g.count}
		end := slices.IndexFunc(g.frames, func(f frame) bool { return slices.Contains(callers, f.function) })
		if end < 0 || name != "" && name != s.Controller && name != s.Handler && !(s.Handler != "" && flight.Names(name, s.Informer)) {
			continue
		}
		if s.Handler != "" {
			s.Controller = "" // started by a reconcile, so it inherited the labels
		}
		for caller := packageOf(g.frames[end].function); end > 0 && packageOf(g.frames[end-1].function) == caller; {
			end-- // skip function adapters such as HandlerFunc
		}
		for _, f := range g.frames[:end] {
			if pkg := packageOf(f.function); pkg != "runtime" && !strings.HasPrefix(pkg, "internal/") {
				s.Frames = append(s.Frames, fmt.Sprintf("%s (%s)", f.function, path.Base(f.place)))
			}
		}
		if len(s.Frames) > 0 {
			all.Stacks = append(all.Stacks, s)
		}
	}
	return all
}

// whereIs returns a sentence describing where a handler's or controller's calls currently are, or "".
func (i *inquiry) whereIs(name, informer string) string {
	if i.goroutines == nil {
		i.goroutines, _ = profile()
	}
	all := stacksIn(i.goroutines, name)
	var places []string
	for n := range all.Stacks {
		if s := &all.Stacks[n]; s.Informer == informer && !slices.Contains(places, s.Where()) {
			places = append(places, s.Where())
		}
	}
	if len(places) == 0 {
		return ""
	}
	return " It is in " + enumerated(places, ", or in ") + "."
}
