package recording

import (
	"cmp"
	"slices"
	"time"
)

// client is one that asks, about one thing.
type client struct {
	about    about
	informer uint64
}

// stream is what one client was given, about one thing.
type stream struct {
	client
	taken    bool          // by a client
	from     time.Duration // the moment of the recording from which on it is played in time
	requests []*Request
	used     []bool
	of       map[string][]int // those that ask for the same, in order; used ones may be gone from it
	lists    []int            // of a first state, in order
	furthest int              // of the used ones; -1 before the first
	playing  int              // requests whose answers have more to be read
	ended    bool             // the client has come for more than there is
}

// newStream is one without requests.
func newStream(c client, from time.Duration) *stream {
	return &stream{client: c, from: from, of: map[string][]int{}, furthest: -1}
}

// add adds the next request.
func (s *stream) add(q *Request) {
	at, shape := len(s.requests), q.shape()
	s.requests, s.used = append(s.requests, q), append(s.used, false)
	s.of[shape] = append(s.of[shape], at)
	if !q.Watch() && q.parameter("continue") == "" {
		s.lists = append(s.lists, at)
	}
}

// use notes that a request is played.
func (s *stream) use(at int) {
	s.used[at] = true
	s.furthest = max(s.furthest, at)
}

// find returns the first request that is not used and asks for the same. For a first state
// another way of asking for it will do: the recorded client may have had the list from
// somewhere else, or the beginning may have been left out.
func (s *stream) find(asked *Request) int {
	shape := asked.shape()
	same, had := s.of[shape]
	for len(same) > 0 && s.used[same[0]] {
		same = same[1:]
	}
	if had {
		s.of[shape] = same
	}
	if len(same) > 0 {
		return same[0]
	}
	if !asked.initial() || asked.parameter("continue") != "" {
		return -1
	}
	if n, _ := slices.BinarySearch(s.lists, s.furthest+1); n < len(s.lists) {
		return s.lists[n]
	}
	return -1
}

// had reports whether there was a request that asks for the same.
func (s *stream) had(asked *Request) bool {
	_, had := s.of[asked.shape()]
	return had
}

// find returns the first of streams that has a request which asks for the same, and which one. Where
// none has, it is one that has others left, and -1; and nil if all was played of those that have begun.
func find(streams []*stream, asked *Request) (*stream, int) {
	for _, s := range streams {
		if at := s.find(asked); at >= 0 {
			return s, at
		}
	}
	left := streams[0]
	for _, s := range streams {
		switch {
		case s.furthest < 0:
		case s.furthest < len(s.requests)-1:
			return s, -1
		default:
			left = nil
		}
	}
	return left, -1
}

// streams returns what a client is given, nothing if the recording has nothing about that; mu is
// held.
func (r *Replay) streams(c client) []*stream {
	if all, known := r.of[c]; known {
		return all
	}
	of := client{c.about, c.informer}
	of.about.Server = r.serverOf(c.about)
	var informers, all []*stream
	for _, s := range r.recorded {
		switch {
		case s.about != of.about:
		case s.informer != 0:
			informers = append(informers, s)
		default: // it is one at most
			all = append(all, s)
		}
	}
	switch {
	case len(informers) == 0:
	case c.informer == 0:
		all = append(all, merged(of, informers))
	default:
		all = []*stream{r.free(of, informers)}
	}
	for _, s := range all {
		if !s.taken {
			s.taken = true
			r.asked = append(r.asked, s)
		}
	}
	if len(all) > 0 {
		r.of[c] = all
	}
	return all
}

// free returns the first of the recorded informers that no client has taken. If all are, it is the
// first of them again, from its beginning; mu is held.
func (r *Replay) free(c client, informers []*stream) *stream {
	for _, s := range informers {
		if !s.taken {
			return s
		}
	}
	again := newStream(c, max(r.opts.From, r.now()-r.late))
	for _, q := range informers[0].requests {
		again.add(q)
	}
	return again
}

// merged returns a stream of all that the recorded informers were given, in order.
func merged(c client, informers []*stream) *stream {
	var all []*Request
	for _, s := range informers {
		all = append(all, s.requests...)
	}
	slices.SortStableFunc(all, func(a, b *Request) int { return cmp.Compare(a.At, b.At) })
	s := newStream(c, informers[0].from)
	for _, q := range all {
		s.add(q)
	}
	return s
}

// serverOf is the server of the recording that is asked: that of the same address or, where that
// was not recorded, the first that was asked for the same.
func (r *Replay) serverOf(asked about) (server string) {
	for _, s := range r.recorded {
		other := s.about
		if other == asked {
			return asked.Server
		}
		if other.Server = asked.Server; other == asked && server == "" {
			server = s.about.Server
		}
	}
	return server
}
