package debug

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/workqueue"
)

// Keys contains the keys in the queue of a controller, or in another work queue.
type Keys struct {
	Name       string
	Controller bool `json:",omitzero"` // whether the queue belongs to a controller
	Queue      workqueue.Status

	Running []Key // longest running first
	Waiting []Key // longest waiting first
	Delayed []Key // earliest due first
	Parked  []Key // waiting for a cache to catch up with their write; earliest deadline first
}

// Key is one key in a queue.
type Key struct {
	Key      string
	Priority int           `json:",omitzero"`
	For      time.Duration // how long it has been running or waiting
	Due      time.Duration // time until a delayed or parked key is queued
	Again    bool          `json:",omitzero"` // will be requeued when done
	Requeues int           `json:",omitzero"` // consecutive failures, or -1 if the rate limiter blocks
	Write    string        // for a parked key: the write that the cache has not seen yet
}

// queue returns the keys of one controller or queue.
func (p *Process) queue(q query) (*Keys, error) {
	limit, err := q.number("limit", 100, mostItems)
	if err != nil {
		return nil, err
	}
	name := q.get("name")
	var names []string
	for _, c := range p.opts.controllers() {
		if c.Name() == name {
			return controllerKeys(c, limit), nil
		}
		names = append(names, c.Name())
	}
	for _, queue := range p.opts.queues() {
		status := queue.Status()
		if status.Name == name {
			keys := keysOf(queue.Contents(limit))
			keys.Name, keys.Queue = name, status
			return keys, nil
		}
		names = append(names, status.Name)
	}
	if len(names) == 0 {
		return nil, refuse(http.StatusNotFound, "This process exposes no controllers or queues.")
	}
	return nil, refuse(http.StatusNotFound, "No such controller or queue. Available: %s.", enumerated(names, ", "))
}

func controllerKeys(c controller.View, limit int) *Keys {
	contents := c.Contents(limit)
	keys := keysOf(contentsOf(contents.Contents, controller.Request.String))
	keys.Name, keys.Controller, keys.Queue = c.Name(), true, c.Status().Queue
	for _, parked := range contents.Parked {
		keys.Parked = append(keys.Parked, Key{Key: parked.Key.String(), Due: time.Until(parked.Until), Requeues: parked.Requeues, Write: parked.Write})
	}
	return keys
}

// maxKey limits the length of keys formatted by a user's function. Object keys are always shorter, even with
// namespace and cluster.
const maxKey = 1 << 10

func keysOf(contents workqueue.Contents[string]) *Keys {
	now := time.Now()
	keys := func(held []workqueue.Held[string]) (all []Key) {
		for _, h := range held {
			k := Key{Key: shortened(h.Key, maxKey), Priority: h.Priority, Again: h.Again, Requeues: h.Requeues}
			if !h.Since.IsZero() {
				k.For = now.Sub(h.Since)
			}
			if !h.Due.IsZero() {
				k.Due = h.Due.Sub(now)
			}
			all = append(all, k)
		}
		return all
	}
	return &Keys{Running: keys(contents.Running), Waiting: keys(contents.Waiting), Delayed: keys(contents.Delayed)}
}

// namesOf returns the informers' names, which are also used as names of controllers' sources.
func namesOf(informers []one) map[string]bool {
	names := map[string]bool{}
	for _, each := range informers {
		names[each.status.Reflector.Resource] = true
	}
	return names
}

// concerns reports whether a controller may be responsible for the object: one of its sources is a selected
// informer, or is unknown and could therefore request any object.
func (i *inquiry) concerns(sources []controller.SourceStatus) bool {
	return len(sources) == 0 || slices.ContainsFunc(sources, func(s controller.SourceStatus) bool { return i.meant[s.Name] || !i.shown[s.Name] })
}

// narrower returns one of a controller's sources whose informer has objects of the same type but does
// not include this object, or "" if there is none.
func (i *inquiry) narrower(sources []controller.SourceStatus) string {
	resource := func(name string) string {
		name, _, _ = strings.Cut(name, " ")
		return name
	}
	for _, s := range sources {
		for name := range i.meant {
			if len(i.holders) > 0 && !i.meant[s.Name] && resource(s.Name) == resource(name) {
				return s.Name
			}
		}
	}
	return ""
}
