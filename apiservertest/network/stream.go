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
	// window is the maximum number of bytes in flight or unread in one direction.
	window = 64 << 10

	// segment is the size of a TCP segment on Ethernet.
	segment = 1460

	// resend is TCP's first retransmission timeout.
	resend = 200 * time.Millisecond

	// resends is the maximum number of times that the same segment is lost.
	resends = 6
)

// stream is one direction of a connection. A single buffer holds its bytes:
//
//	| read | arrived | in flight |
//	       start     flights[0].from
//
// If nothing is in flight, everything has arrived. The pair's mutex guards it.
type stream struct {
	pair    *pair
	toward  Direction
	changed sync.Cond // signals data to read, room to write, a deadline, or the end

	buffer  []byte
	start   int   // offset of the unread bytes in buffer
	sent    int64 // bytes written so far, including lost ones
	flights []flight
	vacant  int // bytes of the window occupied by lost bytes

	breaks  []Break // ordered by After, counted from the first byte
	stopped bool    // no more writes are accepted
	ended   bool    // the end of the stream is in flight or has arrived
	over    error   // error with which the stream ended; nil until the end has arrived

	rand      *rand.Rand
	busy      time.Time // when the line becomes idle
	timer     *time.Timer
	timed     time.Time // when timer fires
	readBy    deadline
	writeBy   deadline
	discarded bool // there is no longer a reader
}

// flight is a range of bytes in flight. The first step bytes arrive at time at, and another step bytes
// after every gap, unless earlier bytes arrive later.
type flight struct {
	from, to int64 // offsets in the bytes sent
	at       time.Time
	step     int64
	gap      time.Duration
	end      error // the end of the stream, which follows the bytes
	held     bool  // a partition holds the bytes
}

// unread returns the number of unread bytes in the buffer.
func (s *stream) unread() int { return len(s.buffer) - s.start }

// take moves arrived bytes to b. It returns 0 and no error if there are none.
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

// land marks bytes in flight as arrived when they are due and returns the number of readable bytes.
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

// await sets the timer that wakes waiting goroutines when more bytes arrive.
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

// finish records how the stream ended and wakes both ends.
func (s *stream) finish(how error) {
	s.over = how
	s.pair.wake()
}

// onTheWay returns the number of bytes in flight.
func (s *stream) onTheWay() int64 {
	return s.flights[len(s.flights)-1].to - s.flights[0].from
}

// wake wakes all waiting goroutines.
func (s *stream) wake() {
	s.pair.mu.Lock()
	defer s.pair.mu.Unlock()
	s.pair.wake()
}

// put sends as much of b as fits into the window.
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

// append appends b to the buffer unless it will never be read.
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

// harm applies a [Break] that falls within the bytes sent since from.
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

// keep sends the bytes since from that precede an offset on their way, and discards the rest.
func (s *stream) keep(at int, offset, from int64) {
	s.buffer, s.sent = s.buffer[:at], offset
	s.fly(from)
}

// fly schedules the arrival of the bytes sent since from.
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
	s.changed.Broadcast() // so that a waiting reader sets its timer
}

// launch puts bytes in flight.
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

// arrival returns when something sent at a given time arrives, unless earlier bytes
// arrive later.
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

// retransmission returns the extra delay of a segment due to losses.
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

// step returns the number of bytes that arrive together. There is at most one step per unit of the grid,
// so steps get larger as the bandwidth grows.
func (s *stream) step() int {
	is := &s.pair.is
	step := is.Segment
	if step <= 0 {
		step = segment
	}
	return max(step, int(int64(is.Bandwidth)*int64(grid)/int64(time.Second)))
}

// rounded rounds a gap to the grid so that all bytes of a stream arrive at its offset.
func (s *stream) rounded(gap time.Duration) time.Duration {
	return max(grid, gap.Round(grid))
}

// end puts the end of the stream in flight.
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

// cut resets the stream immediately, keeping bytes that have arrived.
func (s *stream) cut() {
	if n := s.land(); s.over == nil {
		s.buffer, s.flights = s.buffer[:s.start+n], nil
		s.ended, s.stopped = true, true
		s.finish(syscall.ECONNRESET)
	}
}

// drop discards the bytes in flight; they still occupy the window.
func (s *stream) drop() {
	n := s.land()
	s.vacant += s.unread() - n
	s.buffer, s.flights = s.buffer[:s.start+n], nil
}

// discard drops bytes that will never be read.
func (s *stream) discard() {
	s.discarded = true
	s.buffer, s.start, s.flights = nil, 0, nil
	if s.timer != nil {
		s.timer.Stop()
	}
}

// hold holds back the bytes in flight.
func (s *stream) hold() {
	s.land()
	for i := range s.flights {
		s.flights[i].held = true
	}
}

// release lets held bytes arrive.
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
