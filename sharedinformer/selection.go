package sharedinformer

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// Selection says who leaves out the objects that are not in an informer's share.
type Selection uint8

const (
	// SelectionNone: the informer has no share, and nothing is left out.
	SelectionNone Selection = iota
	// SelectionUnknown: nothing has told yet, or all slots are in the share.
	SelectionUnknown
	// SelectionByServer: the server sends what is in the share, and little else (KEP-5866). The
	// last list said so, or only what was asked for has come since, where more would have
	// been all but certain.
	SelectionByServer
	// SelectionByClient: the server sends all objects, and the informer passes by those that
	// are not in the share. It cannot select by the key, does not know how to, or is not let.
	SelectionByClient
)

// String says it in words.
func (s Selection) String() string {
	switch s {
	case SelectionNone:
		return "none"
	case SelectionByServer:
		return "by the server"
	case SelectionByClient:
		return "by the client"
	}
	return "unknown"
}

// MarshalText lets a status print readably as JSON.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// selecting is the shards of an informer for one of its feeds. It is the reflector.Ownership
// of that, asks the server for what is wanted, and notes whether it gets that: with each
// request anew, since another server may answer. Whatever the server does, objects that
// are not wanted are left out here.
type selecting struct {
	*shards

	by         atomic.Uint32 // a Selection; zero before the first note
	unanswered atomic.Int32  // requests with a selector that were not accepted, in a row
}

// maxUnanswered is how many requests with a selector may fail in a row before one goes without:
// something on the way may dislike it, and not say so.
const maxUnanswered = 4

// Select implements reflector.Ownership. An object whose key may change, and that the cache
// has, is not known to be deleted where a list lacks it: it may be another process's now.
func (s *selecting) Select(req *source.Request, lists bool) (away func() []object.Version) {
	var mu sync.Mutex
	var all []object.Version
	lists = lists && !s.Key.Fixed()
	listed := false
	asked := s.now.Load().slots
	selection, shown := s.ask(asked)
	req.Selection = selection
	req.Wanted = func(o object.Head) bool {
		hash := s.Key.Hash(o)
		if shown != nil {
			shown(asked.HasHash(hash))
		}
		if s.now.Load().of(hash) > 0 {
			return true
		}
		if !lists {
			return false
		}
		if v := object.VersionOf(o); s.mayHave(v) {
			mu.Lock()
			defer mu.Unlock()
			if !listed {
				all = append(all, v.Clone())
			}
		}
		return false
	}
	return func() []object.Version {
		mu.Lock()
		defer mu.Unlock()
		listed = true
		return all
	}
}

// ask returns how the server is to be asked for some slots, and what is to be called with each
// object that comes: whether it was asked for. That is nil where nothing is asked for.
func (s *selecting) ask(slots shard.Slots) (source.Selection, func(askedFor bool)) {
	selector := s.Key.Selector(slots)
	switch {
	case selector == "":
		if slots.Len() < slots.Total() {
			s.note(SelectionByClient)
		}
		return source.Selection{}, nil
	case s.unanswered.Add(1) > maxUnanswered:
		s.unanswered.Store(0)
		return source.Selection{}, nil
	}
	var strange atomic.Bool
	var shown atomic.Int64
	enough := telling(slots)
	answered := func(by source.SelectedBy) {
		s.unanswered.Store(0)
		switch {
		case by == source.NotSelected:
			s.note(SelectionByClient)
		case by == source.SelectedByServer && !strange.Load():
			s.note(SelectionByServer)
		}
	}
	return source.Selection{Selector: selector, Answered: answered}, func(askedFor bool) {
		switch {
		case strange.Load():
		case !askedFor:
			strange.Store(true)
			s.note(SelectionByClient)
		case shown.Load() < enough && shown.Add(1) == enough:
			s.note(SelectionByServer)
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

func (s *selecting) note(by Selection) { s.by.Store(uint32(by)) }

// told is what was noted last.
func (s *selecting) told() Selection { return max(Selection(s.by.Load()), SelectionUnknown) }

// selection is what the feeds come to.
func (i *core) selection() Selection {
	if i.shards == nil {
		return SelectionNone
	}
	by := SelectionUnknown
	for n, f := range i.feeds.all() {
		switch one := f.selecting.told(); {
		case one == SelectionByClient:
			return one
		case n == 0:
			by = one
		case one == SelectionUnknown:
			by = one
		}
	}
	return by
}
