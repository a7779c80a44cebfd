package network

import (
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

const (
	// window is how many bytes may be under way or unread in a direction.
	window = 64 << 10

	// segment is how many bytes a TCP segment carries on Ethernet.
	segment = 1460

	// resend is how long TCP waits at first before it sends a segment again.
	resend = 200 * time.Millisecond

	// resends is how often a segment is lost at most.
	resends = 6
)

// stream is one direction of a connection. Its bytes are in one buffer:
//
//	| read | arrived | in flight |
//	       start     flights[0].from
//
// Where nothing is in flight everything has arrived. It is guarded by the pair's mutex.
type stream struct {
	pair    *pair
	toward  Direction
	changed sync.Cond // something to read, room to write, a deadline, or the end

	buffer  []byte
	start   int   // of what has not been read, in buffer
	sent    int64 // bytes written so far, those that vanished included
	flights []flight
	vacant  int // bytes of the window that are taken by what vanished

	breaks  []Break // in the order of After, which counts from the first byte
	stopped bool    // nothing more may be written
	ended   bool    // the end is on its way or has arrived
	over    error   // how the stream ended; nil until that has arrived

	rand      *rand.Rand
	busy      time.Time // until when the line is
	timer     *time.Timer
	timed     time.Time // when timer fires
	readBy    deadline
	writeBy   deadline
	discarded bool // nobody will read
}

// flight is bytes that are under way. The first step of them arrives at the time at,
// and another one every gap, unless those before them arrive later.
type flight struct {
	from, to int64 // offsets in all that was sent
	at       time.Time
	step     int64
	gap      time.Duration
	end      error // the end of the stream, which comes after the bytes
	held     bool  // by a partition
}

// unread counts the bytes in the buffer that have not been read.
func (s *stream) unread() int { return len(s.buffer) - s.start }

// take moves what has arrived to b. It returns 0 and no error where that is nothing.
func (s *stream) take(b []byte) (int, error) {
	n := s.land()
	if n == 0 || len(b) == 0 {
		s.await()
		return 0, s.over
	}
	n = copy(b[:min(n, len(b))], s.buffer[s.start:])
	s.start += n
	if s.start == len(s.buffer) {
		s.buffer, s.start = s.buffer[:0], 0
	}
	s.changed.Broadcast()
	return n, nil
}

// land takes in what has arrived and returns how many bytes there are to read.
func (s *stream) land() int {
	if len(s.flights) == 0 {
		return s.unread()
	}
	now := time.Now()
	for len(s.flights) > 0 {
		f := &s.flights[0]
		if f.held || f.at.After(now) {
			break
		}
		if f.gap > 0 && f.from < f.to {
			steps := 1 + int64(now.Sub(f.at)/f.gap)
			f.from = min(f.to, f.from+steps*f.step)
			f.at = f.at.Add(time.Duration(steps) * f.gap)
			if f.from < f.to {
				break
			}
		}
		if f.end != nil {
			s.finish(f.end)
		}
		s.flights = s.flights[1:]
	}
	if len(s.flights) == 0 {
		s.flights = nil
		return s.unread()
	}
	return s.unread() - int(s.onTheWay())
}

// await sees to it that those who wait are woken when more arrives.
func (s *stream) await() {
	if len(s.flights) == 0 {
		return
	}
	f := &s.flights[0]
	if f.held || s.timed.Equal(f.at) {
		return
	}
	s.timed = f.at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(f.at), s.wake)
	} else {
		s.timer.Reset(time.Until(f.at))
	}
}

// finish says how the stream has ended, which concerns both ends.
func (s *stream) finish(how error) {
	s.over = how
	s.pair.wake()
}

// onTheWay counts the bytes that have not arrived.
func (s *stream) onTheWay() int64 {
	return s.flights[len(s.flights)-1].to - s.flights[0].from
}

// wake lets those who wait look again.
func (s *stream) wake() {
	s.pair.mu.Lock()
	defer s.pair.mu.Unlock()
	s.pair.wake()
}

// put sends as much of b as the window has room for.
func (s *stream) put(b []byte) int {
	room := window - s.unread() - s.vacant
	if room <= 0 {
		return 0
	}
	b = b[:min(room, len(b))]
	from := s.sent
	s.append(b)
	for len(s.breaks) > 0 {
		next := s.breaks[0]
		if next.After > s.sent || next.Do == Flip && next.After == s.sent {
			break
		}
		s.breaks = s.breaks[1:]
		s.harm(next, from)
		if s.stopped || s.pair.lost {
			return len(b)
		}
	}
	s.fly(from)
	return len(b)
}

// append puts b at the end of the buffer, unless nobody will ever read it.
func (s *stream) append(b []byte) {
	s.sent += int64(len(b))
	switch {
	case s.pair.lost:
		s.vacant += len(b)
		return
	case s.discarded:
		if s.pair.is.Partition {
			s.vacant += len(b)
		}
		return
	}
	if s.start > 0 && len(s.buffer)+len(b) > cap(s.buffer) {
		s.buffer = s.buffer[:copy(s.buffer, s.buffer[s.start:])]
		s.start = 0
	}
	s.buffer = append(s.buffer, b...)
}

// harm does what a Break says, which lies in what was sent since from.
func (s *stream) harm(b Break, from int64) {
	if s.discarded || s.pair.lost {
		return
	}
	at := len(s.buffer) - int(s.sent-b.After) // in the buffer
	switch b.Do {
	case Flip:
		mask := b.Mask
		if mask == 0 {
			mask = math.MaxUint8
		}
		s.buffer[at] ^= mask
	case Reset:
		s.keep(at, b.After, from)
		s.end(syscall.ECONNRESET)
		s.pair.streams[1-s.toward].cut()
	case Vanish:
		s.keep(at, b.After, from)
		s.pair.lost = true
		s.pair.streams[1-s.toward].drop()
	}
}

// keep sends what comes before an offset, of what was sent since from, and takes back
// what comes after.
func (s *stream) keep(at int, offset, from int64) {
	s.buffer, s.sent = s.buffer[:at], offset
	s.fly(from)
}

// fly decides when what was sent since from arrives.
func (s *stream) fly(from int64) {
	if s.discarded || s.pair.lost || s.sent == from {
		return
	}
	is := &s.pair.is
	if len(s.flights) == 0 && is.clean() {
		s.changed.Broadcast()
		return
	}
	now := time.Now()
	if is.Loss > 0 {
		step := int64(s.step())
		for at := from; at < s.sent; at += step {
			s.launch(at, min(at+step, s.sent), now, s.retransmission())
		}
	} else {
		s.launch(from, s.sent, now, 0)
	}
	s.changed.Broadcast() // a waiting reader sets its timer
}

// launch sends bytes on their way.
func (s *stream) launch(from, to int64, now time.Time, late time.Duration) {
	is := &s.pair.is
	f := flight{from: from, to: to, held: is.Partition}
	begin := now
	if is.Bandwidth > 0 {
		f.step = int64(s.step())
		f.gap = s.rounded(time.Duration(f.step) * time.Second / time.Duration(is.Bandwidth))
		if s.busy.After(begin) {
			begin = s.busy
		}
		steps := time.Duration((to - from + f.step - 1) / f.step)
		s.busy = begin.Add(steps * f.gap)
		begin = begin.Add(f.gap)
	}
	f.at = s.arrival(begin.Add(late))
	s.flights = append(s.flights, f)
}

// arrival is when something arrives that is sent at a time, unless what was sent
// before it arrives later.
func (s *stream) arrival(sent time.Time) time.Time {
	is := &s.pair.is
	at := sent.Add(is.Latency)
	if is.Jitter > 0 {
		at = at.Add(time.Duration(s.draw().Int64N(int64(is.Jitter))))
	}
	if s.pair.link == nil {
		return at
	}
	return align(at, slotOf(s.pair.link.index, s.pair.n, s.toward))
}

// retransmission is how much later than others a segment arrives.
func (s *stream) retransmission() (late time.Duration) {
	for n := 0; n < resends && s.draw().Float64() < s.pair.is.Loss; n++ {
		late += resend << n
	}
	return late
}

func (s *stream) draw() *rand.Rand {
	if s.rand == nil {
		l := s.pair.link
		s.rand = random(l.seed, l.name, [...]string{"to the server", "to the client"}[s.toward], s.pair.n)
	}
	return s.rand
}

// step is how many bytes arrive together. Faster than one step a grid line it is not,
// so that steps grow where the bandwidth is large.
func (s *stream) step() int {
	is := &s.pair.is
	step := is.Segment
	if step <= 0 {
		step = segment
	}
	return max(step, int(int64(is.Bandwidth)*int64(grid)/int64(time.Second)))
}

// rounded makes a gap a multiple of the grid, so that all of a stream arrives in its
// slot.
func (s *stream) rounded(gap time.Duration) time.Duration {
	return max(grid, gap.Round(grid))
}

// end sends the end of the stream on its way.
func (s *stream) end(how error) {
	if s.ended || s.pair.lost {
		return
	}
	s.ended = true
	if how != io.EOF {
		s.stopped = true
	}
	if len(s.flights) == 0 && s.pair.is.clean() {
		s.finish(how)
		return
	}
	at := s.arrival(time.Now())
	s.flights = append(s.flights, flight{from: s.sent, to: s.sent, at: at, end: how, held: s.pair.is.Partition})
	s.changed.Broadcast()
}

// cut ends the stream with what has arrived: a reset at this instant.
func (s *stream) cut() {
	if n := s.land(); s.over == nil {
		s.buffer, s.flights = s.buffer[:s.start+n], nil
		s.ended, s.stopped = true, true
		s.finish(syscall.ECONNRESET)
	}
}

// drop loses what is in flight; it still fills the window.
func (s *stream) drop() {
	n := s.land()
	s.vacant += s.unread() - n
	s.buffer, s.flights = s.buffer[:s.start+n], nil
}

// discard forgets what nobody will read any more.
func (s *stream) discard() {
	s.discarded = true
	s.buffer, s.start, s.flights = nil, 0, nil
	if s.timer != nil {
		s.timer.Stop()
	}
}

// hold keeps what is in flight.
func (s *stream) hold() {
	s.land()
	for i := range s.flights {
		s.flights[i].held = true
	}
}

// release lets what was held arrive.
func (s *stream) release() {
	at := s.arrival(time.Now())
	for i := range s.flights {
		if f := &s.flights[i]; f.held {
			f.held = false
			if f.at.Before(at) {
				f.at = at
			}
		}
	}
	s.changed.Broadcast()
}
