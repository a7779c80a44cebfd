package sharding

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// Requests implements reflector.Ownership for one reflector of an informer. It asks the server for owned
// objects only, and records for each request whether the server complied, since each request may reach a
// different server. Any other objects are skipped.
type Requests struct {
	*Ownership

	by         atomic.Uint32 // a shard.Selection; zero until first recorded
	unanswered atomic.Int32  // consecutive requests with a selector that were not accepted
}

// maxUnanswered is the number of consecutive requests with a selector that may fail before one is sent
// without it, because a proxy may reject the selector without a clear error.
const maxUnanswered = 4

// Select implements reflector.Ownership. If an object's shard key can change, its absence from a list
// does not prove that it was deleted, so Select tracks cached objects that a list shows to be no longer
// owned.
func (r *Requests) Select(req *source.Request, lists bool) (away func() []object.Version) {
	var mu sync.Mutex
	var all []object.Version
	lists = lists && !r.Key.Fixed()
	listed := false
	asked := r.Last().slots
	selection, shown := r.ask(asked)
	req.Selection = selection
	req.Wanted = func(o object.Head) bool {
		hash := r.Key.Hash(o)
		if shown != nil {
			shown(asked.HasHash(hash))
		}
		if r.Last().SinceOf(hash) > 0 {
			return true
		}
		if !lists {
			return false
		}
		if v := object.VersionOf(o); r.hooks.MayHave(v) {
			mu.Lock()
			defer mu.Unlock()
			if !listed {
				all = append(all, v.Clone())
			}
		}
		return false
	}
	if !lists {
		return nil
	}
	return func() []object.Version {
		mu.Lock()
		defer mu.Unlock()
		listed = true // later events are not part of the list
		return all
	}
}

// ask returns the selection for some slots, and a function to call for each received object, passing
// whether the object was requested. The function is nil if there is no selection.
func (r *Requests) ask(slots shard.Slots) (source.Selection, func(askedFor bool)) {
	selector := r.Key.Selector(slots)
	switch {
	case selector == "":
		if slots.Len() < slots.Total() {
			r.note(shard.SelectionByClient)
		}
		return source.Selection{}, nil
	case r.unanswered.Add(1) > maxUnanswered:
		r.unanswered.Store(0)
		return source.Selection{}, nil
	}
	var strange atomic.Bool
	var shown atomic.Int64
	enough := telling(slots)
	answered := func(by source.SelectedBy) {
		r.unanswered.Store(0)
		switch {
		case by == source.NotSelected:
			r.note(shard.SelectionByClient)
		case by == source.SelectedByServer && !strange.Load():
			r.note(shard.SelectionByServer)
		}
	}
	return source.Selection{Selector: selector, Answered: answered}, func(askedFor bool) {
		switch {
		case strange.Load():
		case !askedFor:
			strange.Store(true)
			r.note(shard.SelectionByClient)
		case shown.Load() < enough && shown.Add(1) == enough:
			r.note(shard.SelectionByServer)
		}
	}
}

// telling returns how many received objects must all match the selection before we conclude that the
// server applies it. The odds of this happening by chance are those of 20 coin flips all coming up
// heads.
func telling(slots shard.Slots) int64 {
	heads := math.Log2(float64(slots.Total()) / float64(slots.Len()))
	if slots.Len() == 0 || heads <= 0 {
		return math.MaxInt64
	}
	return int64(math.Ceil(20 / heads))
}

func (r *Requests) note(by shard.Selection) { r.by.Store(uint32(by)) }

// Selection returns the most recently recorded selection.
func (r *Requests) Selection() shard.Selection {
	return max(shard.Selection(r.by.Load()), shard.SelectionUnknown)
}

// Selection combines the selections of all of an informer's reflectors.
func Selection(all []*Requests) shard.Selection {
	by := shard.SelectionUnknown
	for n, r := range all {
		switch one := r.Selection(); {
		case one == shard.SelectionByClient:
			return one
		case n == 0, one == shard.SelectionUnknown:
			by = one
		}
	}
	return by
}
