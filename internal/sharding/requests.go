package sharding

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// Requests is the reflector.Ownership of one reflector of an informer. It asks the server for the
// objects that are owned, and notes whether it gets those: with each request anew, since another
// server may answer. If the server sends other objects too, they are left out here.
type Requests struct {
	*Ownership

	by         atomic.Uint32 // a shard.Selection; zero before the first note
	unanswered atomic.Int32  // requests with a selector that were not accepted, in a row
}

// maxUnanswered is how many requests with a selector may fail in a row before one goes without:
// something on the way may dislike it, and not say so.
const maxUnanswered = 4

// Select implements reflector.Ownership. An object whose key may change, and that the cache
// has, is not known to be deleted where a list lacks it: it may be another process's now.
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
		listed = true // later events are not of the list
		return all
	}
}

// ask returns how the server is to be asked for some slots, and what is to be called with each
// object that comes: whether it was asked for. That is nil where nothing is asked for.
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

// telling is how many objects that were asked for, and no other between, show that the server
// selects: that this is chance is as likely as 20 heads in a row.
func telling(slots shard.Slots) int64 {
	heads := math.Log2(float64(slots.Total()) / float64(slots.Len()))
	if slots.Len() == 0 || heads <= 0 {
		return math.MaxInt64
	}
	return int64(math.Ceil(20 / heads))
}

func (r *Requests) note(by shard.Selection) { r.by.Store(uint32(by)) }

// Selection is what was noted last.
func (r *Requests) Selection() shard.Selection {
	return max(shard.Selection(r.by.Load()), shard.SelectionUnknown)
}

// Selection is what the requests of all reflectors of an informer come to.
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
