package debugger

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// Deaf is an [http.RoundTripper] that hides changes to some objects from watches, as a network fault might.
// It is safe for concurrent use.
type Deaf struct {
	Next http.RoundTripper

	name atomic.Pointer[string]
}

// To hides changes to objects called name from now on; an empty name hides nothing. The name must not be a
// substring of another object's name.
func (d *Deaf) To(name string) { d.name.Store(&name) }

// RoundTrip implements http.RoundTripper. It requests JSON so that each event is one line.
func (d *Deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	watch := strings.Contains(req.URL.RawQuery, "watch=")
	if watch {
		req = req.Clone(req.Context())
		req.Header.Set("Accept", "application/json")
	}
	resp, err := d.Next.RoundTrip(req)
	if err == nil && watch {
		resp.Body = &deafBody{Closer: resp.Body, events: bufio.NewReader(resp.Body), deaf: d}
	}
	return resp, err
}

// hears reports whether to pass on an event.
func (d *Deaf) hears(event []byte) bool {
	name := d.name.Load()
	return name == nil || *name == "" || !bytes.Contains(event, []byte(`"name":"`+*name+`"`))
}

// deafBody is a watch's response body.
type deafBody struct {
	io.Closer
	events *bufio.Reader
	deaf   *Deaf
	event  []byte // being read
	err    error  // after it
}

// Read implements io.Reader.
func (b *deafBody) Read(p []byte) (int, error) {
	for len(b.event) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.event, b.err = b.events.ReadBytes('\n'); !b.deaf.hears(b.event) {
			b.event = nil
		}
	}
	n := copy(p, b.event)
	b.event = b.event[n:]
	return n, nil
}
