package recording

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/internal/jitter"
)

// RoundTripper returns a RoundTripper that wraps next and records lists and watches of collections. It
// does not change the traffic, except for Options.Relist. It should see requests before credentials are
// added. Given a sent request, blank returns a function that removes the request's credentials from the
// response; if blank is nil, responses must never contain credentials.
func (r *Recorder) RoundTripper(next http.RoundTripper, blank func(sent *http.Request) Blank) http.RoundTripper {
	return &tap{recorder: r, next: next, blank: blank}
}

// tap is the recording http.RoundTripper.
type tap struct {
	recorder *Recorder
	next     http.RoundTripper
	blank    func(sent *http.Request) Blank
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *tap) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.recorder.listens() {
		return t.next.RoundTrip(req)
	}
	if h := led(req); h != nil {
		return t.send(req, h)
	}
	q, ok := read(req)
	if !ok {
		return t.next.RoundTrip(req)
	}
	q.Informer = jitter.RecallOf(req.Context()).Number()
	q.Withheld = !t.recorder.opts.IncludeSecrets && (confidential.Marked(req.Context()) || confidential.Named(q.Resource().Resource))
	expires := t.recorder.expires(&q)
	id, ok := t.recorder.begin(&q)
	if !ok {
		return t.next.RoundTrip(req)
	}
	h := &heard{recorder: t.recorder, id: id, withheld: q.Withheld, told: q.Withheld || t.recorder.opts.IncludeSecrets, req: req}
	if expires {
		return (&tap{t.recorder, tooOld{}, nil}).send(req, h)
	}
	return t.send(req, h)
}

// led returns the body of the redirect that led to req, or nil if req is not
// redirected.
func led(req *http.Request) *heard {
	if req.Response == nil {
		return nil
	}
	from, ok := req.Response.Body.(*heard)
	if !ok || !from.redirect {
		return nil
	}
	return &heard{recorder: from.recorder, id: from.id, withheld: from.withheld, told: from.told, req: req, redirects: from.redirects}
}

// send sends a request and records the response.
func (t *tap) send(req *http.Request, heard *heard) (*http.Response, error) {
	var at atomic.Pointer[step]
	none := stepConnection
	at.Store(&none)
	ctx := httptrace.WithClientTrace(req.Context(), trace(func(s step) { at.Store(&s) }))
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	switch {
	case err != nil:
		heard.end(err, *at.Load())
		return resp, err
	case resp == nil:
		heard.end(errors.New("the RoundTripper returned no response, and no error"), *at.Load())
		return nil, nil
	}
	if heard.redirect = redirects(resp); heard.redirect {
		heard.follow()
	} else if err := t.answered(heard, resp); err != nil {
		heard.end(err, stepSent)
		return resp, nil
	}
	if heard.ReadCloser = resp.Body; resp.Body == nil {
		heard.ReadCloser = http.NoBody
	}
	resp.Body = heard
	return resp, nil
}

// answered records the response header. It fails if the user's [Blank] panics, in which case the
// response must not be recorded.
func (t *tap) answered(h *heard, resp *http.Response) (err error) {
	defer failure.Recover("the Blank of a RoundTripper", &err)
	if t.blank != nil {
		sent := resp.Request
		if sent == nil {
			sent = h.req
		}
		h.blank = t.blank(sent)
	}
	h.answered(resp)
	return nil
}

// heard is a response body that is recorded as it is read.
type heard struct {
	io.ReadCloser
	recorder *Recorder
	id       uint64
	withheld bool
	told     bool   // it has been decided whether to withhold the body
	head     []byte // start of the body, kept until told is set
	failed   bool   // the status is that of an error
	encoded  bool   // the body is still encoded, so it cannot be searched
	redirect bool   // http.Client will follow the response: see follow
	req      *http.Request
	blank    Blank
	mu       sync.Mutex // guards told, head, withheld and ended: a body may be closed while it is read
	ended    bool       // the end has been recorded, so nothing may follow

	redirects int // number of redirects so far
}

// redirects reports whether a response is a redirect.
func redirects(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location") != ""
	}
	return false
}

// follow handles a redirect. Redirects are not recorded, only the final response, and neither is the
// target, since it may contain a credential. http.Client follows at most ten redirects.
func (h *heard) follow() {
	const most = 10
	if h.redirects++; h.redirects == most {
		h.finish(endingOf(errors.New("stopped after 10 redirects"), stepSent))
	}
	h.mu.Lock()
	h.ended = true // the redirect's own body is not recorded
	h.mu.Unlock()
}

// answered records the response header.
func (h *heard) answered(resp *http.Response) {
	head := func(name string) string { return h.clean(resp.Header.Get(name)) }
	h.failed = resp.StatusCode >= http.StatusBadRequest
	a := Answer{Status: resp.StatusCode, ContentType: head("Content-Type"), RetryAfter: head("Retry-After")}
	if encoding := head("Content-Encoding"); encoding != "" && encoding != "identity" {
		a.Encoding, h.encoded = encoding, !h.withheld
	}
	h.recorder.take(event{record: record{kind: kindAnswer, request: h.id, payload: encode(a)}})
}

// maxHeader limits the length of a recorded header value, so that three of them fit into a record even if JSON escapes
// each byte.
const maxHeader = 1 << 10

// clean removes credentials from a header value.
func (h *heard) clean(value string) string {
	text := []byte(value[:min(len(value), maxHeader)])
	if h.blank != nil {
		h.blank(text, true)
	}
	return string(text)
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 && n <= len(p) && !h.encoded && !h.redirect && !h.recorder.over.Load() {
		h.part(p[:n])
	}
	if err != nil {
		h.end(err, stepSent)
	}
	return n, err
}

// mostHead limits how much of a body is held back while looking for its first kind.
const mostHead = 64 << 10

// part records a chunk of the body. It holds chunks back until it finds the first kind. A body without a
// kind near its start could contain anything and is withheld.
func (h *heard) part(part []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	if h.told {
		h.chunk(part)
		return
	}
	h.head = append(h.head, part...)
	kind, found := firstKind(h.head)
	switch {
	case found:
		h.withheld = confidential.Named(kind)
	case !namesKind(h.head):
	case len(h.head) < mostHead:
		return
	default:
		h.withheld = true
	}
	h.settle()
}

// settle records the chunks that were held back.
func (h *heard) settle() {
	head := h.head
	if h.told, h.head = true, nil; len(head) > 0 {
		h.chunk(head)
	}
}

// chunk records a chunk of the body, or just its size if the body is withheld.
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

func (h *heard) Close() error {
	h.finish(ending{Left: true, Step: stepSent})
	return h.ReadCloser.Close()
}

// end records the end of the response.
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

// finish records the end if it has not been recorded yet.
func (h *heard) finish(e ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	h.ended = true
	if !h.told && len(h.head) > 0 && mayHideKind(h.head) && !h.failed {
		h.withheld = true
	}
	h.settle()
	h.recorder.take(event{record: record{kind: kindEnd, request: h.id, payload: encode(e)}})
}
