package apiservertest

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// loadBeat is the interval at which a paced stream sends the events that are due. It bounds how long an
// event waits to be batched with others, and thus the latency added by the load generator itself.
const loadBeat = time.Millisecond

func (l *Load) list(c *call) error {
	opts, sel, err := c.listOptions()
	if err != nil {
		return err
	}
	expired, _, _ := l.state()
	read := l.listBody
	if opts.Limit == 1 {
		read = l.firstBody
	} else {
		l.listing()
	}
	body, err := read(c, expired, sel.shard)
	if err != nil {
		return unclassified(err.Error())
	}
	c.w.Header().Set("Content-Type", c.format.mediaType())
	c.w.WriteHeader(http.StatusOK)
	return writeChunks(c, body)
}

func writeChunks(c *call, body []byte) error {
	for chunk := range slices.Chunk(body, loadChunk) {
		if _, err := c.w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (l *Load) watch(c *call) error {
	opts, sel, err := c.listOptions()
	if err != nil {
		return err
	}
	from, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return unclassified(err.Error())
	}
	s := &loadStream{load: l, c: c}
	s.expired, _, _ = l.state()
	if s.ring, err = l.ring(c, sel.shard); err != nil {
		return unclassified(err.Error())
	}
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		l.listing()
	}
	listRV := l.listRV(s.expired)
	s.rv = max(from, listRV)
	c.w.Header().Set("Content-Type", c.watchType())
	c.w.WriteHeader(http.StatusOK)
	if s.expired && !initial && from < listRV {
		return s.end()
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.watchTimeout(opts))
	defer cancel()
	if initial {
		if err := l.sendInitial(c, s.expired, sel.shard, opts.AllowWatchBookmarks); err != nil {
			return err
		}
	}
	if err := c.w.flush(); err != nil {
		return err
	}
	if l.opts.Held {
		err = s.play(ctx)
	} else {
		left := l.opts.Events
		if left <= 0 {
			left = math.MaxInt64
		}
		err = s.send(ctx, left)
	}
	if err != nil || s.over {
		return err
	}
	<-ctx.Done()
	return context.Cause(c.ctx) // nil after the timeout, which ends a watch normally
}

// sendInitial sends the objects that match sel, and the final bookmark.
func (l *Load) sendInitial(c *call, expired bool, sel *shardSelector, bookmark bool) error {
	if err := l.sendAdded(c, expired, sel); err != nil {
		return err
	}
	if !bookmark {
		return nil
	}
	obj := l.opts.Resource.New()
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	e, err := l.version(obj, l.listRV(expired)).encode(c.format)
	if err != nil {
		return err
	}
	_, err = c.w.Write(appendFrame(nil, c.format, watch.Bookmark, e.body))
	return err
}

// sendAdded sends the objects that match sel.
func (l *Load) sendAdded(c *call, expired bool, sel *shardSelector) error {
	if !l.opts.Afresh {
		added, err := l.added(c, expired, sel)
		if err != nil {
			return err
		}
		return writeChunks(c, added)
	}
	var buffer []byte
	for v := range l.listed(expired) {
		if !sel.matches(v.obj) {
			continue
		}
		e, err := v.encode(c.format)
		if err != nil {
			return err
		}
		buffer = appendFrame(buffer, c.format, watch.Added, e.body)
		if len(buffer) < loadChunk {
			continue
		}
		if _, err := c.w.Write(buffer); err != nil {
			return err
		}
		buffer = buffer[:0]
	}
	_, err := c.w.Write(buffer)
	return err
}

// loadStream is one watch.
type loadStream struct {
	load    *Load
	c       *call
	ring    []loadFrame
	expired bool // whether Expire had been called when the watch started
	over    bool // the final event has been sent
	rv      uint64
	at      int // position in the ring
	sent    int64
	buffer  []byte
}

// play sends the events allowed by [Load.Play] until ctx is done or [Load.Expire] is called.
func (s *loadStream) play(ctx context.Context) error {
	for {
		expired, played, moved := s.load.state()
		if expired != s.expired {
			return s.end()
		}
		if err := s.pace(ctx, played); err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}

// end sends the error event for an expired version.
func (s *loadStream) end() error {
	s.over = true
	expired := apierrors.NewResourceExpired("too old resource version")
	body, err := encodeStatus(expired.Status(), s.c.format)
	if err != nil {
		return err
	}
	if _, err := s.c.w.Write(appendFrame(nil, s.c.format, watch.Error, body)); err != nil {
		return err
	}
	return s.c.w.flush()
}

// pace sends the remaining events at played's rate. If it is late, it catches up, so the average
// rate is correct.
func (s *loadStream) pace(ctx context.Context, played LoadPlay) error {
	left := played.Events - s.sent
	if played.PerSecond <= 0 {
		return s.send(ctx, left)
	}
	beat := time.NewTicker(loadBeat)
	defer beat.Stop()
	began, total := time.Now(), left
	for left > 0 {
		due := min(int64(time.Since(began).Seconds()*played.PerSecond), total) - (total - left)
		if err := s.send(ctx, due); err != nil {
			return err
		}
		left -= due
		select {
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// send sends n events. An event costs no more than a copy and a few digits, and watches share no
// state.
func (s *loadStream) send(ctx context.Context, n int64) error {
	for ; n > 0 && s.rv < maxLoadRV && len(s.ring) > 0; n-- {
		frame := &s.ring[s.at]
		if s.at++; s.at == len(s.ring) {
			s.at = 0
		}
		s.rv++
		s.sent++
		start := len(s.buffer)
		s.buffer = append(s.buffer, frame.bytes...)
		writeDigits(s.buffer[start+frame.rvAt:], rvDigits, s.rv)
		if frame.sentAt >= 0 {
			writeDigits(s.buffer[start+frame.sentAt:], len(sentMark), uint64(time.Now().UnixNano()))
		}
		if len(s.buffer) < loadChunk && n > 1 {
			continue
		}
		if _, err := s.c.w.Write(s.buffer); err != nil {
			return err
		}
		s.buffer = s.buffer[:0]
		if ctx.Err() != nil {
			return context.Cause(s.c.ctx)
		}
	}
	return s.c.w.flush()
}

// writeDigits overwrites the first count bytes of at with the digits of n.
func writeDigits(at []byte, count int, n uint64) {
	for d := count - 1; d >= 0; d-- {
		at[d] = byte('0' + n%10)
		n /= 10
	}
}
