package recording

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// RoundTripper returns next with the recorder listening. It changes nothing of what passes,
// and records lists and watches of collections alone. It should see requests before the
// credentials are added; blank returns, of a request as it was sent, what takes them out of
// its answer. Nil means that there are none.
func (r *Recorder) RoundTripper(next http.RoundTripper, blank func(sent *http.Request) Blank) http.RoundTripper {
	return &tap{recorder: r, next: next, blank: blank}
}

// tap is the place where a recorder listens.
type tap struct {
	recorder *Recorder
	next     http.RoundTripper
	blank    func(sent *http.Request) Blank
}

// CloseIdleConnections is called by http.Client's method of the same name.
func (t *tap) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.recorder.over.Load() {
		return t.next.RoundTrip(req)
	}
	q, ok := read(req)
	if !ok {
		return t.next.RoundTrip(req)
	}
	id, ok := t.recorder.begin(&q)
	if !ok {
		return t.next.RoundTrip(req)
	}
	var at atomic.Pointer[step]
	none := stepConnection
	at.Store(&none)
	ctx := httptrace.WithClientTrace(req.Context(), trace(func(s step) { at.Store(&s) }))
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	heard := &heard{recorder: t.recorder, id: id, withheld: q.Withheld, req: req}
	if err != nil {
		heard.end(err, *at.Load())
		return resp, err
	}
	if t.blank != nil {
		sent := resp.Request
		if sent == nil {
			sent = req
		}
		heard.blank = t.blank(sent)
	}
	heard.answered(resp)
	heard.ReadCloser = resp.Body
	resp.Body = heard
	return resp, nil
}

// heard is a body that is recorded as it is read.
type heard struct {
	io.ReadCloser
	recorder *Recorder
	id       uint64
	withheld bool
	req      *http.Request
	blank    Blank
	once     sync.Once // of the end
}

// answered records the head of the answer.
func (h *heard) answered(resp *http.Response) {
	a := Answer{Status: resp.StatusCode, ContentType: h.clean(resp.Header.Get("Content-Type")), RetryAfter: h.clean(resp.Header.Get("Retry-After"))}
	h.recorder.take(event{record: record{kind: kindAnswer, request: h.id, payload: encode(a)}})
}

// clean is the value of a header without credentials.
func (h *heard) clean(value string) string {
	text := []byte(value[:min(len(value), maxText)])
	if h.blank != nil {
		h.blank(text, true)
	}
	return string(text)
}

// Read implements io.Reader.
func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 && n <= len(p) && !h.recorder.over.Load() {
		h.chunk(p[:n])
	}
	if err != nil {
		h.end(err, stepSent)
	}
	return n, err
}

// chunk records a part of the body.
func (h *heard) chunk(part []byte) {
	if h.withheld {
		h.recorder.take(event{record: record{kind: kindWithheld, request: h.id, payload: binary.AppendUvarint(nil, uint64(len(part)))}})
		return
	}
	for len(part) > 0 {
		n := min(len(part), maxPayload)
		h.recorder.take(event{record{kind: kindChunk, request: h.id, payload: append([]byte(nil), part[:n]...)}, h.blank})
		part = part[n:]
	}
}

// Close implements io.Closer.
func (h *heard) Close() error {
	h.finish(ending{Left: true, Step: stepSent})
	return h.ReadCloser.Close()
}

// end records that nothing more comes.
func (h *heard) end(err error, at step) {
	switch {
	case h.req.Context().Err() != nil:
		h.finish(ending{Left: true, Step: at})
	case err == io.EOF && h.ReadCloser != nil:
		h.finish(ending{Step: at})
	default:
		h.finish(endingOf(err, at))
	}
}

// finish records the end, once.
func (h *heard) finish(e ending) {
	h.once.Do(func() { h.recorder.take(event{record: record{kind: kindEnd, request: h.id, payload: encode(e)}}) })
}
