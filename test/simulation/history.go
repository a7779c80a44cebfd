package simulation

import (
	"fmt"
	"math"
	"strconv"

	"github.com/millrace-dev/millrace/object"
)

// history is the server's content for one kind at each moment. A moment is identified by the number of the
// last change. Only the goroutine that runs the schedule changes a history. Other goroutines may read it up
// to a moment passed to them.
type history struct {
	now    int // the present moment
	states map[object.Key][]state
	epochs []epoch
}

// state is an object's state from moment from until its next state.
type state struct {
	from    int
	rv      uint64
	uid     string
	content int
	gone    bool
}

// epoch is a period between restores, during which resource versions increase.
type epoch struct {
	from  int
	marks []mark
}

// mark records that the server was at rv after the change numbered moment.
type mark struct {
	rv     uint64
	moment int
}

func newHistory() *history {
	return &history{states: map[object.Key][]state{}, epochs: []epoch{{}}}
}

// made records that o is now on the server.
func (h *history) made(key object.Key, o object.Object, content int) {
	rv := number(o.GetResourceVersion())
	before := h.states[key]
	if len(before) > 0 && before[len(before)-1].rv == rv && !before[len(before)-1].gone {
		return // nothing changed
	}
	h.add(key, state{rv: rv, uid: string(o.GetUID()), content: content})
}

// removed records that key was removed at version rv.
func (h *history) removed(key object.Key, rv uint64) { h.add(key, state{rv: rv, gone: true}) }

func (h *history) add(key object.Key, s state) {
	h.now++
	s.from = h.now
	h.states[key] = append(h.states[key], s)
	last := &h.epochs[len(h.epochs)-1]
	last.marks = append(last.marks, mark{s.rv, h.now})
}

// restore records a return to the state at an earlier moment, at version rv.
func (h *history) restore(moment int, rv uint64) {
	h.now++
	for key, states := range h.states {
		then := state{gone: true}
		for _, s := range states {
			if s.from <= moment {
				then = s
			}
		}
		then.from = h.now
		h.states[key] = append(states, then)
	}
	h.epochs = append(h.epochs, epoch{from: h.now, marks: []mark{{rv, h.now}}})
}

// promised returns the moments that a cache complete up to rv may show: those from rv on, in each epoch.
func (h *history) promised(rv uint64) (when []span) {
	for n, e := range h.epochs {
		moment := e.from
		for _, m := range e.marks {
			if m.rv > rv {
				break
			}
			moment = m.moment
		}
		end := math.MaxInt
		if n+1 < len(h.epochs) {
			end = h.epochs[n+1].from
		}
		when = append(when, span{moment, end})
	}
	return when
}

// span is the range of moments from first up to, but not including, end.
type span struct{ first, end int }

// moments returns the moments at which the server's content was exactly what holds reports, considering only
// objects for which seen is true. If there is no such moment, the error identifies an object that does not
// match the others.
func (h *history) moments(keys []object.Key, holds func(object.Key) (uid string, rv uint64, ok bool), seen func(object.Key, state) bool) ([]span, error) {
	when := []span{{0, math.MaxInt}}
	for _, key := range keys {
		uid, rv, ok := holds(key)
		var fits []span
		from, fitting := 0, !ok // initially nothing exists
		for _, s := range h.states[key] {
			there := !s.gone && seen(key, s)
			now := there == ok && (!ok || s.uid == uid && s.rv == rv)
			if now == fitting {
				continue
			}
			if fitting {
				fits = append(fits, span{from, s.from})
			}
			from, fitting = s.from, now
		}
		if fitting {
			fits = append(fits, span{from, math.MaxInt})
		}
		both := intersect(when, fits)
		if len(both) == 0 {
			what := "is missing"
			if ok {
				what = fmt.Sprintf("is at %d", rv)
			}
			return nil, fmt.Errorf("%s %s, as on the server at %v, but the rest is as at %v", key, what, fits, when)
		}
		when = both
	}
	return when, nil
}

func intersect(a, b []span) (both []span) {
	for _, x := range a {
		for _, y := range b {
			if s := (span{max(x.first, y.first), min(x.end, y.end)}); s.first < s.end {
				both = append(both, s)
			}
		}
	}
	return both
}

func number(rv string) uint64 {
	n, _ := strconv.ParseUint(rv, 10, 64)
	return n
}
