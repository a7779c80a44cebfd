package recording

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"time"
)

// relistEvery is the minimum time between two forced lists of a client. It keeps a file that is too
// small for a list from making the client list forever.
const relistEvery = 15 * time.Minute

// maxCourses bounds how many clients are tracked.
const maxCourses = 10_000

// course is the recorder's state of one client.
type course struct {
	lost     bool      // the client's last list is dropped, or will be soon
	relisted time.Time // when it was last forced to list; zero if never
}

// place returns the total number of bytes written so far.
func (w *ring) place() int64 { return w.shed + w.blocks.size }

// asked notes where the last list of each client begins.
func (w *ring) asked(payload []byte) {
	if !w.recorder.opts.Relist {
		return
	}
	var q Request
	if json.Unmarshal(payload, &q) == nil && q.fill() && q.initial() && q.parameter("continue") == "" {
		w.listed[client{q.about, q.Informer}] = w.place()
	}
}

// lookBack finds the clients whose last list will be dropped when the file is full the
// next time. They should list again before that.
func (w *ring) lookBack() {
	const now, then = 16, 4 // parts of MaxSize: how often to look, and how far back a list may be
	most := w.recorder.opts.MaxSize
	if !w.recorder.opts.Relist || w.place()-w.looked < most/now {
		return
	}
	w.looked = w.place()
	var lost []client
	for c, at := range w.listed {
		if w.looked-at > most/then {
			lost = append(lost, c)
			delete(w.listed, c)
		}
	}
	w.recorder.lost(lost)
}

// lost marks clients that should list again.
func (r *Recorder) lost(clients []client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.courses, func(_ client, of course) bool { return !of.lost && now.Sub(of.relisted) >= relistEvery })
	for _, c := range clients {
		if of, known := r.courses[c]; known || len(r.courses) < maxCourses {
			of.lost = true
			r.courses[c] = of
		}
	}
}

// expires reports whether a watch should be answered with 410 Gone, so its client lists
// again.
func (r *Recorder) expires(q *Request) bool {
	if !r.opts.Relist || q.initial() || q.Withheld {
		return false
	}
	if rv := q.parameter("resourceVersion"); rv == "" || rv == "0" {
		return false // the watch does not follow a list
	}
	c := client{q.about, q.Informer}
	r.mu.Lock()
	defer r.mu.Unlock()
	of, now := r.courses[c], time.Now()
	if !of.lost || now.Sub(of.relisted) < relistEvery {
		return false
	}
	r.courses[c] = course{relisted: now}
	return true
}

// tooOld answers a watch as a server does that no longer has the version.
type tooOld struct{}

func (tooOld) RoundTrip(req *http.Request) (*http.Response, error) {
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the recorder wants a list before it has to leave the last one out (recording.Options.Relist)","reason":"Expired","code":410}` + "\n"
	resp := response(req, Answer{Status: http.StatusGone, ContentType: "application/json"}, io.NopCloser(bytes.NewReader([]byte(status))))
	resp.ContentLength = int64(len(status))
	return resp, nil
}
