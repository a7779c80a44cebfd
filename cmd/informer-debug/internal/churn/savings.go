package churn

import (
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// measureAll is the number of events after which sampling starts. The first measureAll events are all
// measured, then every second event until as many again have been measured, then every fourth, and so on.
const measureAll = 2000

// savings computes what predicates and Keep would save.
type savings struct {
	whole      wire.Decoder
	predicates []predicate
	keeps      []keep

	events, measured int
	every, since     int           // one event in every is measured; since counts measurements since every was last doubled
	took             time.Duration // total decoding time of the measured events
}

// predicate is a predicate from package controller with its counts.
type predicate struct {
	name     string
	pass     controller.Predicate[untyped]
	dropped  int
	measured int
	took     time.Duration // total decoding time of those measured events that it would drop
}

// keep counts what one selection of fields would save.
type keep struct {
	fields  wire.Fields
	decoder wire.Decoder
	blind   int // updates that changed no kept field
	took    time.Duration
}

func newSavings(kind object.GVK, chosen []string) (savings, error) {
	s := savings{every: 1, predicates: []predicate{
		{name: "GenerationChanged", pass: controller.GenerationChanged[untyped]()},
		{name: "LabelsChanged", pass: controller.LabelsChanged[untyped]()},
		{name: "AnnotationsChanged", pass: controller.AnnotationsChanged[untyped]()},
		{name: "VersionChanged", pass: controller.VersionChanged[untyped]()},
		{name: "Changed, all but status", pass: butStatus()},
	}}
	fields := []wire.Fields{wire.WithoutManagedFields, wire.Without("status"), wire.Only("metadata")}
	for _, paths := range chosen {
		fields = append(fields, wire.Only(paths))
	}
	decoder := func(keep wire.Fields) (wire.Decoder, error) {
		return wire.NewDecoder(wire.MediaJSON, wire.Options{Type: reflect.TypeFor[untyped](), Kind: kind, Keep: keep})
	}
	var err error
	// An explicit "all fields" uses the same decoding path as a selection.
	if s.whole, err = decoder(wire.Without()); err != nil {
		return s, err
	}
	for _, f := range fields {
		d, err := decoder(f)
		if err != nil {
			return s, err
		}
		s.keeps = append(s.keeps, keep{fields: f, decoder: d})
	}
	return s, nil
}

// butStatus drops updates that change only the status and insignificant metadata.
func butStatus() controller.Predicate[untyped] {
	return controller.PredicateFunc[untyped](func(e sharedinformer.Event[untyped]) bool {
		if e.Type != sharedinformer.Update {
			return true
		}
		changes, err := diff.Between(e.Old, e.Object)
		for _, c := range changes {
			if !below(c.Path, "status") {
				return true
			}
		}
		return err != nil
	})
}

// below reports whether path is field or something inside it.
func below(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// event counts one event: an update from old to now with the given changes, or any other event if old is nil.
func (s *savings) event(old, now untyped, changes []diff.Change) {
	s.events++
	whole, measured := s.measure(now)
	if old == nil {
		return
	}
	update := sharedinformer.Event[untyped]{Type: sharedinformer.Update, Old: old, Object: now}
	for n := range s.predicates {
		p := &s.predicates[n]
		if p.pass.Pass(update) {
			continue
		}
		p.dropped++
		if measured {
			p.measured++
			p.took += whole
		}
	}
	for n := range s.keeps {
		seen := false
		for _, c := range changes {
			seen = seen || s.keeps[n].fields.Keeps(plainPath(c.Path))
		}
		if !seen {
			s.keeps[n].blind++
		}
	}
}

// measure decodes an object again, completely and with each Keep, if the event is in the sample.
func (s *savings) measure(o untyped) (whole time.Duration, measured bool) {
	if s.events%s.every != 0 {
		return 0, false
	}
	body, err := o.MarshalJSON()
	if err != nil {
		return 0, false
	}
	if whole, measured = s.decode(body); !measured {
		return 0, false
	}
	s.measured++
	if s.since++; s.since == measureAll {
		s.every, s.since = 2*s.every, 0
	}
	return whole, true
}

// decode decodes a body completely and with each Keep. They take turns at going first, since the first one
// runs with cold CPU caches.
func (s *savings) decode(body []byte) (whole time.Duration, ok bool) {
	took := make([]time.Duration, 1+len(s.keeps))
	for n := range took {
		turn := (s.measured + n) % len(took)
		by := s.whole
		if turn > 0 {
			by = s.keeps[turn-1].decoder
		}
		if took[turn], ok = quickest(by, body); !ok {
			return 0, false
		}
	}
	s.took += took[0]
	for n := range s.keeps {
		s.keeps[n].took += took[1+n]
	}
	return took[0], true
}

// quickest decodes a body three times and returns the shortest time, since any single run may be
// disturbed by garbage collection or another process.
func quickest(d wire.Decoder, body []byte) (time.Duration, bool) {
	best := time.Duration(math.MaxInt64)
	for range 3 {
		began := time.Now()
		if _, err := d.Object(body); err != nil {
			return 0, false
		}
		best = min(best, time.Since(began))
	}
	return best, true
}

// scaled extrapolates a time from the measured events to all events.
func scaled(took time.Duration, measured, events int) time.Duration {
	if measured == 0 {
		return 0
	}
	return time.Duration(float64(took) * float64(events) / float64(measured))
}

// plainPath returns a path without item names and keys, as used by wire.Fields.
func plainPath(path string) string {
	var b strings.Builder
	for path != "" {
		head, rest, found := strings.Cut(path, "[")
		b.WriteString(head)
		if !found {
			break
		}
		_, path, _ = strings.Cut(rest, "]")
	}
	return b.String()
}
