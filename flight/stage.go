package flight

import (
	"math/bits"
	"time"
)

// Stage is a stage in processing a change or request.
type Stage string

// Informer, handler, and controller or queue stages.
const (
	Decoding    Stage = "decoding"    // from reading the last byte to decoding the object
	Applying    Stage = "applying"    // from decoding the object to updating the cache: mostly time in the queue
	Calling     Stage = "calling"     // a single handler call
	Lagging     Stage = "lagging"     // from the last byte until the handler returned
	Waiting     Stage = "waiting"     // from when a request was ready until a worker took it
	Reconciling Stage = "reconciling" // from when a worker took a request until it was done
)

// Quantiles describes how long a stage took. The values are estimated from buckets whose upper bound is at
// most 1.5 times the lower bound. Max is only as precise as its bucket.
type Quantiles struct {
	Count         uint64
	P50, P90, P99 time.Duration
	Max           time.Duration
}

// StageStatus describes how long one stage took.
type StageStatus struct {
	Stage        Stage
	Minute, Hour Quantiles // the last minute and hour, minus up to 20 s and 20 min, because the oldest window is dropped as a whole
}

// stages contains the times for one track. It is guarded by the recorder's lock.
type stages struct{ first, second *stage }

// stage contains the times for one stage of a track.
type stage struct {
	name Stage
	minute,
	hour [parts]window
}

// parts is how many windows are kept for the last minute, and as many for the last hour. Quantiles cover all
// windows except the oldest.
const parts = 4

const (
	minutePart = 20 * time.Second
	hourPart   = 20 * time.Minute
)

// buckets is the number of buckets: two for each octave of microseconds, up to more than an hour.
const buckets = 66

// window contains the observations from one time window.
type window struct {
	number int64 // counted since 1970
	counts [buckets]uint32
}

// observe records the times in an event, which happened at at, in nanoseconds since 1970.
func (s *stages) observe(e *Event, at int64) {
	switch e.Kind {
	case Applied:
		if e.Received > 0 && e.Decoded >= 0 {
			s.first = s.first.add(Decoding, at, e.Received-e.Decoded, 1)
			s.second = s.second.add(Applying, at, e.Decoded, 1)
		}
	case Told:
		count := max(e.Count, 1)
		s.first = s.first.add(Calling, at, e.Took/time.Duration(count), count)
		if e.Received > 0 {
			s.second = s.second.add(Lagging, at, e.Received, count)
		}
	case Taken:
		s.first = s.first.add(Waiting, at, e.Took, 1)
	case Done:
		s.second = s.second.add(Reconciling, at, e.Took, 1)
	}
}

// add records an observation, creating the stage if s is nil.
func (s *stage) add(name Stage, at int64, took time.Duration, times int) *stage {
	if s == nil {
		s = &stage{name: name}
	}
	b := bucket(took)
	part(&s.minute, at/int64(minutePart)).counts[b] += uint32(times)
	part(&s.hour, at/int64(hourPart)).counts[b] += uint32(times)
	return s
}

// part returns the window with that number. If its slot contained an older window, the slot is cleared first.
func part(windows *[parts]window, number int64) *window {
	w := &windows[uint64(number)%parts]
	if w.number != number {
		*w = window{number: number}
	}
	return w
}

// bucket returns the bucket that counts d. It is 0 if d is less than a microsecond.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0) / (time.Microsecond / 2))
	if n < 2 {
		return 0
	}
	octave := bits.Len64(n) - 1 // starting at 1<<(octave-1) microseconds
	upper := int(n >> (octave - 1) & 1)
	return min(2*octave-1+upper, buckets-1)
}

// bounds returns a bucket's bounds; the upper one is exclusive.
func bounds(b int) (from, to time.Duration) {
	if b == 0 {
		return 0, time.Microsecond
	}
	octave := (b + 1) / 2
	begin := time.Microsecond << (octave - 1)
	half := begin / 2
	if (b+1)%2 == 1 { // the upper half
		return begin + half, 2 * begin
	}
	return begin, begin + half
}

// quantiles returns the quantiles over the current windows.
func quantiles(windows *[parts]window, now int64) (q Quantiles) {
	var sum [buckets]uint64
	for i := range windows {
		w := &windows[i]
		if age := now - w.number; age < 0 || age >= parts-1 {
			continue
		}
		for b, n := range w.counts {
			sum[b] += uint64(n)
			q.Count += uint64(n)
		}
	}
	if q.Count == 0 {
		return q
	}
	q.P50, q.P90, q.P99 = quantile(&sum, q.Count, 50), quantile(&sum, q.Count, 90), quantile(&sum, q.Count, 99)
	for b, n := range sum {
		if n > 0 {
			_, q.Max = bounds(b)
		}
	}
	return q
}

// quantile returns the given percentile of the observations.
func quantile(sum *[buckets]uint64, count, percent uint64) time.Duration {
	rank := max((count*percent+99)/100, 1)
	for b, n := range sum {
		if n < rank {
			rank -= n
			continue
		}
		from, to := bounds(b)
		return from + time.Duration(float64(to-from)*float64(rank)/float64(n))
	}
	return 0
}

// status returns how long the stages took. The caller must hold the recorder's lock.
func (s *stages) status(now time.Time) (all []StageStatus) {
	for _, each := range []*stage{s.first, s.second} {
		if each != nil {
			all = append(all, StageStatus{
				Stage:  each.name,
				Minute: quantiles(&each.minute, now.UnixNano()/int64(minutePart)),
				Hour:   quantiles(&each.hour, now.UnixNano()/int64(hourPart)),
			})
		}
	}
	return all
}
