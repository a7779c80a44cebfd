package recording

import (
	"cmp"
	"slices"
	"time"
)

// client identifies a client and the subject it requests.
type client struct {
	about    about
	informer uint64
}

// stream is the sequence of requests of one recorded client for one subject.
type stream struct {
	client
	taken    bool          // assigned to a client
	from     time.Duration // replay everything before this point in the recording immediately
	requests []*Request
	used     []bool
	of       map[string][]int // indexes of unused requests by shape, in order; may include used ones
	shares   map[string][]int // the same, of requests with a shardSelector, by their shape without it
	lists    []int            // indexes of requests for the full state, in order
	furthest int              // highest used index; -1 if none
	playing  int              // number of responses being read
	ended    bool             // the client requested more than was recorded
}

// newStream returns an empty stream.
func newStream(c client, from time.Duration) *stream {
	return &stream{client: c, from: from, of: map[string][]int{}, shares: map[string][]int{}, furthest: -1}
}

// add appends a request.
func (s *stream) add(q *Request) {
	at, shape := len(s.requests), q.shape()
	s.requests, s.used = append(s.requests, q), append(s.used, false)
	s.of[shape] = append(s.of[shape], at)
	if q.parameter(shardSelector) != "" {
		bare := q.shape(shardSelector)
		s.shares[bare] = append(s.shares[bare], at)
	}
	if !q.Watch() && q.parameter("continue") == "" {
		s.lists = append(s.lists, at)
	}
}

// use marks a request as used.
func (s *stream) use(at int) {
	s.used[at] = true
	s.furthest = max(s.furthest, at)
}

// find returns the first unused request of the same shape. If there is none, and the client has no share, a request for
// a share is accepted. If the request is for the full state, a different shape is accepted, because the recorded client
// may have obtained its list elsewhere, or the beginning of the recording may be missing.
func (s *stream) find(asked *Request) int {
	shape := asked.shape()
	for _, of := range []map[string][]int{s.of, s.shares} {
		same, had := of[shape]
		for len(same) > 0 && s.used[same[0]] {
			same = same[1:]
		}
		if had {
			of[shape] = same
		}
		if len(same) > 0 {
			return same[0]
		}
	}
	if !asked.initial() || asked.parameter("continue") != "" {
		return -1
	}
	if n, _ := slices.BinarySearch(s.lists, s.furthest+1); n < len(s.lists) {
		return s.lists[n]
	}
	return -1
}

// had reports whether there was a request of the same shape.
func (s *stream) had(asked *Request) bool {
	shape := asked.shape()
	return s.of[shape] != nil || s.shares[shape] != nil
}

// find returns the first stream with a matching request, and the request's index. If there is none, it
// returns a stream with unused requests and -1, or nil if all started streams have been used up.
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

// streams returns the streams for a client, or nil if the subject was not recorded. The caller must hold
// mu.
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
		default: // at most one such stream exists
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

// free returns the first recorded informer that is not assigned to a client. If there is none, it
// returns a copy of the first informer, from its beginning. The caller must hold mu.
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

// merged returns a stream that combines the requests of all recorded informers, in order.
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

// serverOf returns the recorded server to use for a request: the server at its address or, if that was
// not recorded, the first one with the same subject.
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
