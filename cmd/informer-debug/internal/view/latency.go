package view

import (
	"math"
	"math/bits"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// latency contains the time a change took to get from each stage to the next.
type latency struct {
	known    bool      // whether the change arrived as an event of its own rather than in a list
	received time.Time // when its last byte was read

	decode  time.Duration // last byte read → decoded
	queue   time.Duration // decoded → in the queue
	apply   time.Duration // in the queue → in the cache
	deliver time.Duration // in the cache → handler called
	total   time.Duration
}

// moments returns when the change was received, decoded, queued, applied and delivered.
func (l *latency) moments() [5]time.Time {
	all, at := [5]time.Time{}, l.received
	for n, took := range []time.Duration{0, l.decode, l.queue, l.apply, l.deliver} {
		at = at.Add(took)
		all[n] = at
	}
	return all
}

// latencyOf measures the latency of an event whose handler was called at now. Initial objects have no
// latency, since they all arrived together.
func latencyOf[T object.Object](e *sharedinformer.Event[T], now time.Time) latency {
	if e.Initial || e.Received.IsZero() {
		return latency{}
	}
	return latency{
		known:    true,
		received: e.Received,
		decode:   e.DecodedAfter,
		queue:    e.QueuedAfter - e.DecodedAfter,
		apply:    e.AppliedAfter - e.QueuedAfter,
		deliver:  now.Sub(e.Received) - e.AppliedAfter,
		total:    now.Sub(e.Received),
	}
}

// histogram counts durations in exponentially growing buckets, sixteen per power of two. Quantiles are
// therefore accurate to 6%, no matter how long the program runs.
type histogram struct {
	buckets [64 * 16]uint64
	count   uint64
	max     time.Duration
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(uint64(d))]++
	h.count++
	h.max = max(h.max, d)
}

// quantile returns the q-quantile of all durations.
func (h *histogram) quantile(q float64) time.Duration {
	wanted := uint64(math.Ceil(q * float64(h.count)))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; n > 0 && seen >= wanted {
			return min(bucketEnd(i), h.max)
		}
	}
	return 0
}

// bucketOf keeps the highest bit of n and the four bits below it.
func bucketOf(n uint64) int {
	if n < 16 {
		return int(n)
	}
	shift := bits.Len64(n) - 5
	return (shift+1)*16 + int(n>>shift) - 16
}

// bucketEnd returns the largest duration in a bucket.
func bucketEnd(i int) time.Duration {
	if i < 16 {
		return time.Duration(i)
	}
	shift := i/16 - 1
	return time.Duration((uint64(i%16)+17)<<shift - 1)
}
