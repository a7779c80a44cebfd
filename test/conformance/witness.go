package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// heard is one handler call.
type heard struct {
	call   string // add, update, delete or resync
	pod    *corev1.Pod
	old    *corev1.Pod // of an update
	marked bool        // an initial add, or a deletion whose final state is unknown
}

func (h heard) String() string {
	s := h.call + " " + h.pod.Name + "=" + h.pod.Labels["state"]
	if h.marked {
		s += " (marked)"
	}
	return s
}

// witness is a handler that records its calls.
type witness struct {
	play     *play
	informer Informer
	r        Registration
	during   func(heard) // called on each call; must be set before the first one

	in  atomic.Int32 // calls in progress
	mu  sync.Mutex
	log []heard
}

// witness adds a handler to i.
func (p *play) witness(i Informer) *witness { return p.witnessWith(i, Handler{}, nil) }

// witnessWith adds a handler with h's options to i.
func (p *play) witnessWith(i Informer, h Handler, during func(heard)) *witness {
	w := &witness{play: p, informer: i, during: during}
	h.Add = func(pod *corev1.Pod, initial bool) { w.hear(heard{call: "add", pod: pod, marked: initial}) }
	h.Update = func(old, pod *corev1.Pod) { w.hear(heard{call: "update", pod: pod, old: old}) }
	h.Delete = func(pod *corev1.Pod, unknown bool) { w.hear(heard{call: "delete", pod: pod, marked: unknown}) }
	h.Resync = func(pod *corev1.Pod) { w.hear(heard{call: "resync", pod: pod}) }
	r, err := i.AddHandler(h)
	p.must(err)
	w.r = r
	return w
}

func (w *witness) hear(h heard) {
	if w.in.Add(1) > 1 {
		w.play.breaks("two calls of one handler at a time")
	}
	defer w.in.Add(-1)
	if h.pod == nil {
		w.play.breaks("%s without the object", h.call)
		return
	}
	w.mu.Lock()
	w.log = append(w.log, h)
	w.mu.Unlock()
	if w.during != nil {
		w.during(h)
	}
}

// story returns the recorded calls as text.
func (w *witness) story() (all []string) {
	for _, h := range w.all() {
		all = append(all, h.String())
	}
	return all
}

func (w *witness) all() []heard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// forget drops the recorded calls.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// tells breaks the case unless the recorded calls are exactly these.
func (w *witness) tells(want ...string) {
	if got := w.story(); !slices.Equal(got, want) {
		w.play.breaks("heard %q, want %q", got, want)
	}
}

// changes breaks the case unless the recorded calls, other than resyncs, are exactly these.
func (w *witness) changes(want ...string) {
	got := slices.DeleteFunc(w.story(), func(s string) bool { return strings.HasPrefix(s, "resync") })
	if !slices.Equal(got, want) {
		w.play.breaks("heard %q, want %q", got, want)
	}
}

// lawful breaks the case unless the calls form a consistent history: only objects that were added are
// updated or deleted, each update leads from the last known state to a newer one, and no call goes back to an
// earlier state.
func (w *witness) lawful() {
	known := map[string]*corev1.Pod{}
	for n, h := range w.all() {
		have := known[h.pod.Name]
		wrong := ""
		switch {
		case h.call == "add" && have != nil:
			wrong = "which exists already"
		case h.call != "add" && have == nil:
			wrong = "which was not added"
		case have != nil && number(h.pod) < number(have):
			wrong = fmt.Sprintf("at %s after %s", h.pod.ResourceVersion, have.ResourceVersion)
		case h.call == "update" && number(h.pod) == number(have):
			wrong = "which was delivered before"
		case h.call == "update" && h.old == nil:
			wrong = "without the old state"
		case h.call == "update" && version(h.old) != version(have):
			wrong = fmt.Sprintf("from %s, but the last state was %s", version(h.old), version(have))
		case h.call == "resync" && number(h.pod) != number(have):
			wrong = fmt.Sprintf("at %s, which is a change from %s", h.pod.ResourceVersion, have.ResourceVersion)
		}
		if wrong != "" {
			w.play.breaks("call %d: %s, %s", n, h, wrong)
		}
		known[h.pod.Name] = h.pod
		if h.call == "delete" {
			delete(known, h.pod.Name)
		}
	}
}

// agrees breaks the case unless the calls add up to the server's state.
func (w *witness) agrees() {
	known := map[string]string{}
	for _, h := range w.all() {
		known[h.pod.Name] = version(h.pod)
		if h.call == "delete" {
			delete(known, h.pod.Name)
		}
	}
	truth := map[string]string{}
	for _, o := range w.play.srv.Objects(pods) {
		truth[o.GetName()] = version(o)
		w.play.want(known[o.GetName()] == version(o), "the server has %s at %s, the handler knows %q", o.GetName(), version(o), known[o.GetName()])
	}
	for name, v := range known {
		w.play.want(truth[name] != "", "the handler knows %s at %s, which the server does not have", name, v)
	}
}

// number returns o's resource version as a number.
func number(o *corev1.Pod) int {
	n, _ := strconv.Atoi(o.ResourceVersion)
	return n
}
