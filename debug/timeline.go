package debug

import (
	"net/http"
	"time"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// Timeline is what is known of one key.
type Timeline struct {
	Key     object.Key
	Entries []flight.Entry // the oldest first
	Lost    uint64         // events that the recorder has had to forget, of whatever key
}

func (p *Process) timeline(q query) (*Timeline, error) {
	key := object.Key{Namespace: q.get("namespace"), Name: q.get("name")}
	if key.Name == "" {
		return nil, refuse(http.StatusBadRequest, "Say of which object: name, and namespace if it has one.")
	}
	recorder := p.opts.Recorder.Or()
	entries := recorder.Timeline(q.get("informer"), key)
	return &Timeline{Key: key, Entries: entries[max(0, len(entries)-mostItems):], Lost: recorder.Status().Lost}, nil
}

// Busiest is which keys have the most changes and reconciles.
type Busiest struct {
	Within time.Duration // as far as the recorder remembers
	Keys   []flight.Busy
}

func (p *Process) busiest(q query) (*Busiest, error) {
	limit, err := q.number("limit", 20, mostItems)
	if err != nil {
		return nil, err
	}
	const day = 24 * 60 * 60
	seconds, err := q.number("seconds", 60, day)
	if err != nil {
		return nil, err
	}
	within := time.Duration(seconds) * time.Second
	return &Busiest{within, p.opts.Recorder.Or().Busiest(time.Now().Add(-within), limit)}, nil
}
