package recording

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// ring is a recorder's file. It is owned by the recorder's goroutine.
//
// Records are appended until the file reaches its maximum size. Then
//  1. whole requests are dropped until it is down to half of that (see oldest),
//  2. the rest is written to a second file, and
//  3. the second file replaces the first.
//
// If a request is dropped while in progress, the rest of its response is not recorded.
type ring struct {
	recorder *Recorder
	file     *os.File
	closed   bool // the file has been closed
	full     bool // requests were dropped
	blocks   blockWriter
	sizes    map[uint64]size  // sizes of the requests in the file, by number
	listed   map[client]int64 // position of each client's last list
	shed     int64            // number of bytes dropped from the file
	looked   int64            // position at the last lookBack
	held     map[uint64][]event
	leftOut  LeftOut
}

// size is the space a request takes up.
type size struct {
	records int64 // size before compression
	body    int64
	ended   bool
}

// begin writes the file header and the first record.
func (w *ring) begin() error {
	w.blocks = blockWriter{to: w.file}
	w.sizes, w.held, w.listed = map[uint64]size{}, map[uint64][]event{}, map[client]int64{}
	if err := w.blocks.begin(); err != nil {
		return err
	}
	if err := w.blocks.add(w.header()); err != nil {
		return err
	}
	return w.blocks.flush()
}

func (w *ring) header() *record {
	r := w.recorder
	return &record{kind: kindHeader, payload: encode(header{Began: r.began.UTC(), Secrets: r.opts.IncludeSecrets, LeftOut: w.leftOut})}
}

// run is the recorder's goroutine. It recovers from panics because a [Blank] is user code.
func (w *ring) run() {
	var err error
	guard := failure.Guard{In: "the Blank of a RoundTripper"}
	defer close(w.recorder.ended)
	defer func() { w.end(err) }()
	defer guard.End(&err, func(exit error) { err = exit })
	err = w.loop()
	guard.Returned()
}

// loop writes until the recorder is closed or an error occurs.
func (w *ring) loop() error {
	r := w.recorder
	var due <-chan time.Time
	for {
		select {
		case <-r.wake:
		case <-due:
			due = nil
			if err := w.blocks.flush(); err != nil {
				return err
			}
		}
		events, last := r.taken()
		if err := w.write(events, last); err != nil {
			return err
		}
		w.lookBack()
		w.report()
		if last {
			return nil
		}
		if due == nil && len(w.blocks.block) > 0 {
			due = time.After(flushAfter)
		}
	}
}

// write writes events and, if last is true, the final record.
func (w *ring) write(events []event, last bool) error {
	for i := range events {
		for _, e := range w.blanked(&events[i]) {
			if err := w.add(e); err != nil {
				return err
			}
		}
	}
	if !last {
		return nil
	}
	for id := range w.held {
		for _, e := range w.release(id) {
			if err := w.add(e); err != nil {
				return err
			}
		}
	}
	if w.recorder.Status().Err == nil {
		end := &record{kind: kindStop, at: w.recorder.afterAll(), payload: encode(stop{w.leftOut})}
		if err := w.blocks.add(end); err != nil {
			return err
		}
	}
	return w.blocks.flush()
}

// add writes an event belonging to a request.
func (w *ring) add(e event) error {
	bytes := bodyOf(&e.record)
	w.recorder.count(bytes)
	if e.kind == kindRequest && len(e.payload) > maxPayload {
		w.leftOut.Requests++
		return nil
	}
	s, in := w.sizes[e.request]
	if !in && e.kind != kindRequest {
		w.leftOut.Bytes += bytes
		return nil
	}
	if e.kind == kindRequest {
		w.asked(e.payload)
	}
	s.records, s.body, s.ended = s.records+int64(len(e.payload))+maxHead, s.body+bytes, e.kind == kindEnd
	w.sizes[e.request] = s
	if err := w.blocks.add(&e.record); err != nil {
		return err
	}
	if w.blocks.size+blockHead+blockSize > w.recorder.opts.MaxSize || len(w.sizes) == maxRequests {
		return w.shrink()
	}
	return nil
}

// count adds to the number of body bytes received.
func (r *Recorder) count(bytes int64) {
	if bytes > 0 {
		r.mu.Lock()
		r.status.Bytes += bytes
		r.mu.Unlock()
	}
}

// bodyOf returns the number of body bytes that a record represents.
func bodyOf(r *record) int64 {
	switch r.kind {
	case kindChunk:
		return int64(len(r.payload))
	case kindWithheld:
		n, _ := binary.Uvarint(r.payload)
		return int64(n)
	}
	return 0
}

// report updates the status.
func (w *ring) report() {
	r := w.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Size, r.status.LeftOut = w.blocks.size, w.leftOut
}

// end closes the file. If the recording ended prematurely, it logs the reason.
func (w *ring) end(err error) {
	r := w.recorder
	r.over.Store(true)
	if err != nil {
		// Ignore errors: a reader stops at the first incomplete block anyway.
		_ = w.file.Truncate(w.blocks.size)
		_ = w.close()
	} else {
		err = errors.Join(w.same(), w.file.Sync(), w.close())
	}
	w.report()
	if err = r.end(withoutPath(err)); err == nil {
		return
	}
	w.warn("the recording has ended", "err", err)
}

// warn logs a warning, ignoring panics in the user's logger.
func (w *ring) warn(text string, args ...any) {
	_ = failure.Apart("Logger", func() error {
		w.recorder.opts.Logger.Warn(text, args...)
		return nil
	})
}

// end records and returns the reason the recording ended prematurely, if it did.
func (r *Recorder) end(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
	if r.status.Err == nil {
		r.status.Err = err
	}
	if r.status.Err != nil {
		r.status.Err = &Error{r.path, -1, r.status.Err}
	}
	return r.status.Err
}

// shrink drops the oldest requests.
func (w *ring) shrink() error {
	if err := w.blocks.flush(); err != nil {
		return err
	}
	gone, before := w.oldest(), w.blocks.size
	if err := w.same(); err != nil {
		return err
	}
	temp := w.recorder.path + partSuffix
	if err := clearPart(temp); err != nil {
		return err
	}
	to, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	kept := blockWriter{to: to}
	if err := w.copy(&kept, gone); err != nil {
		return errors.Join(fmt.Errorf("shrink the file: %w", err), to.Close(), os.Remove(temp))
	}
	err = w.replace(kept.size, func() (*os.File, error) {
		// Some systems cannot rename an open file.
		if err := errors.Join(to.Close(), w.file.Close()); err != nil {
			return nil, err
		}
		if err := os.Rename(temp, w.recorder.path); err != nil {
			return nil, err
		}
		return os.OpenFile(w.recorder.path, os.O_RDWR|os.O_APPEND, 0o600)
	})
	if err != nil {
		return err
	}
	kept.to = w.file
	w.blocks = kept
	w.shed += before - kept.size
	if !w.full {
		w.full = true
		w.warn("the recording is full: from now on the oldest requests are dropped, and an informer can be replayed from its first remaining list", "path", w.recorder.path, "maxSize", w.recorder.opts.MaxSize)
	}
	return nil
}

// oldest removes the requests to drop from sizes and returns them. It keeps the newest finished requests,
// up to half of the maximum size, and requests in progress up to three quarters of it, because once such a
// request is dropped, the client is not recorded until it sends a new one. The largest requests in progress
// are dropped first, because a huge watch would displace all others.
func (w *ring) oldest() map[uint64]bool {
	var all, underWay int64
	for _, size := range w.sizes {
		all += size.records
		if !size.ended {
			underWay += size.records
		}
	}
	// Assume that the remaining requests compress as well as the file does as a whole.
	whole := int64(float64(all) * float64(w.recorder.opts.MaxSize) / float64(max(w.blocks.size, 1)))
	gone := map[uint64]bool{}
	leave := func(id uint64) {
		size := w.sizes[id]
		gone[id] = true
		delete(w.sizes, id)
		all -= size.records
		w.leftOut.Requests++
		w.leftOut.Bytes += size.body
	}
	ids := slices.Sorted(maps.Keys(w.sizes))
	for _, id := range slices.SortedStableFunc(slices.Values(ids), func(a, b uint64) int { return cmp.Compare(w.sizes[b].records, w.sizes[a].records) }) {
		if underWay <= whole*3/4 {
			break
		}
		if size := w.sizes[id]; !size.ended {
			leave(id)
			underWay -= size.records
		}
	}
	keep := whole / 2
	if underWay > whole/4 {
		keep = whole * 3 / 4
	}
	for _, id := range ids {
		if all <= keep && len(w.sizes) <= maxRequests/2 {
			break
		}
		if size, in := w.sizes[id]; in && size.ended {
			leave(id)
		}
	}
	for _, id := range ids { // only requests in progress are left
		if len(w.sizes) <= maxRequests*3/4 {
			break
		}
		if _, in := w.sizes[id]; in {
			leave(id)
		}
	}
	return gone
}

// afterAll returns a time later than the last event's.
func (r *Recorder) afterAll() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(time.Since(r.began), r.at+1)
}

// same checks that the recorder's path still refers to its file.
func (w *ring) same() error { return sameFile(w.file, w.recorder.path) }

// sameFile checks that path still refers to the open file.
func sameFile(file *os.File, path string) error {
	mine, err := file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("the file was moved or removed during the recording")
	case err == nil && !os.SameFile(mine, there):
		return ErrTaken
	}
	return err
}

// copy copies all records except those of dropped requests.
func (w *ring) copy(to *blockWriter, gone map[uint64]bool) error {
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	from := newBlockReader(w.file)
	if err := errors.Join(from.begin(), to.begin()); err != nil {
		return err
	}
	for {
		block, err := from.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for len(block) > 0 {
			var r record
			if r, block, err = next(block); err != nil {
				return err
			}
			switch {
			case gone[r.request]:
				continue
			case r.kind == kindHeader:
				r = *w.header()
			}
			if err := to.add(&r); err != nil {
				return err
			}
		}
	}
	return to.flush()
}

// Blank overwrites credentials in a chunk of a body, in place. It does not touch trailing bytes that may be
// the start of a credential, and returns how many there are. If last is true, the body ends here, and Blank
// also overwrites such a partial credential if it is recognizable.
type Blank func(body []byte, last bool) (open int)

// blanked returns the events that can be written now that e has arrived. A credential may be split
// across several reads, so a possible partial one is held back until more data arrives.
func (w *ring) blanked(e *event) []event {
	if e.kind != kindChunk || e.blank == nil {
		return append(w.release(e.request), *e)
	}
	all := append(w.held[e.request], *e)
	open := blankAll(all, false)
	ready := len(all)
	for ; open > 0; ready-- {
		open -= len(all[ready-1].payload)
	}
	if delete(w.held, e.request); ready < len(all) {
		w.held[e.request] = append([]event(nil), all[ready:]...)
	}
	return all[:ready]
}

// release returns the events held back for a body that has ended.
func (w *ring) release(request uint64) []event {
	held := w.held[request]
	delete(w.held, request)
	if len(held) > 0 {
		blankAll(held, true)
	}
	return held
}

// blankAll overwrites the credentials in consecutive chunks.
func blankAll(chunks []event, last bool) (open int) {
	var body []byte
	for _, c := range chunks {
		body = append(body, c.payload...)
	}
	open = min(chunks[0].blank(body, last), len(body))
	for _, c := range chunks {
		body = body[copy(c.payload, body):]
	}
	return open
}
