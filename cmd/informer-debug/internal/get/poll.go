package get

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// poll detects changes in another process's cache. It reads each key that appears in the process's events.
// Since events may be dropped or start late, it also compares all heads periodically.
type poll struct {
	*getter
	which debug.Which
	name  string // name of the only object; empty for all
	send  func(rowChange) bool
	known map[object.Key]item
}

// lookAgain is the interval at which all heads are compared.
const lookAgain = 10 * time.Second

// run sends the existing objects and then changes until ctx is done. It sends an error if the process
// exits.
func (p *poll) run(ctx context.Context) {
	events := make(chan debug.Event)
	ended := make(chan error, 1)
	streaming, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { stop(); <-done }()
	go func() {
		defer close(done)
		ended <- p.stream(streaming, events)
	}()
	p.known = map[object.Key]item{}
	err := p.look(ctx)
	if err == nil && p.send(rowChange{begun: true}) {
		err = p.follow(ctx, events, ended)
	}
	if err != nil && ctx.Err() == nil {
		p.send(rowChange{err: err})
	}
}

// stream forwards events until they end.
func (p *poll) stream(ctx context.Context, events chan<- debug.Event) error {
	for e, err := range p.sight.Process.Events(ctx, p.which.Informer, object.Key{}) {
		if err != nil {
			return p.sight.Unanswered(ctx, err)
		}
		select {
		case events <- e:
		case <-ctx.Done():
			return nil
		}
	}
	return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s: %w", p.sight.Called, attach.ErrEnded)}
}

func (p *poll) follow(ctx context.Context, events <-chan debug.Event, ended <-chan error) error {
	again := time.NewTimer(time.Second) // covers changes from before the events started
	defer again.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-again.C:
			err = p.look(ctx)
			again.Reset(lookAgain)
		case e := <-events:
			switch {
			case e.Lost > 0, e.Kind == flight.Replaced:
				err = p.look(ctx)
			case e.Role == flight.Informer && e.Kind == flight.Applied && p.wants(e.Key):
				err = p.one(ctx, e.Key)
			}
		}
		if err != nil {
			return err
		}
	}
}

// wants reports whether an object with this key may be shown.
func (p *poll) wants(key object.Key) bool {
	namespace := p.sight.Flags.Namespace
	return (namespace == "" || key.Namespace == namespace) && (p.name == "" || key.Name == p.name) && strings.Contains(key.Name, p.search)
}

// look compares all heads.
func (p *poll) look(ctx context.Context) error {
	all, err := readAll(ctx, p.sight, p.which, p.search, false)
	if err != nil {
		return err
	}
	there := map[object.Key]bool{}
	for n := range all {
		h := &all[n].head
		key := object.Key{Namespace: h.Namespace, Name: h.Name}
		if !p.wants(key) {
			continue
		}
		there[key] = true
		if was := p.known[key].head; was.UID == h.UID && was.RV == h.RV {
			continue
		}
		if p.output.NeedsObjects() || p.order != nil {
			err = p.one(ctx, key)
		} else {
			p.is(key, &all[n])
		}
		if err != nil {
			return err
		}
	}
	for key := range p.known {
		if !there[key] {
			p.is(key, nil)
		}
	}
	return nil
}

// one reads one object.
func (p *poll) one(ctx context.Context, key object.Key) error {
	now, err := readObject(ctx, p.sight, p.which, key, false)
	if err != nil {
		return err
	}
	if now != nil && !p.sight.Flags.Labels.Matches(labels.Set(now.head.Labels)) {
		now = nil
	}
	p.is(key, now)
	return nil
}

// is sends an object's current state if it has changed. A nil object is gone.
func (p *poll) is(key object.Key, now *item) {
	was, had := p.known[key]
	if had && (now == nil || was.head.UID != now.head.UID) {
		delete(p.known, key)
		p.send(rowChange{event: rowDeleted, item: was})
		had = false
	}
	if now == nil || had && was.head.RV == now.head.RV {
		return
	}
	p.known[key] = *now
	c := rowChange{event: rowAdded, item: *now}
	if had {
		c.event = rowModified
	}
	p.send(c)
}
