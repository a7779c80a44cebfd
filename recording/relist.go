package recording

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"time"
)

// relistEvery is the minimum time between forced relists of a client. It prevents a file that is too small
// for a list from making the client relist over and over.
const relistEvery = 15 * time.Minute

// maxCourses limits how many clients are tracked.
const maxCourses = 10_000

// course is the recorder's state for one client.
type course struct {
	lost     bool      // the client's last list has been dropped, or will be soon
	relisted time.Time // when it was last forced to relist; zero means never
}

// place returns the total number of bytes written so far, including those dropped since.
func (w *ring) place() int64 { return w.shed + w.blocks.size }

// asked notes the position of each client's last list.
func (w *ring) asked(payload []byte) {
	if !w.recorder.opts.Relist {
		return
	}
	var q Request
	if json.Unmarshal(payload, &q) == nil && q.fill() && q.initial() && q.parameter("continue") == "" {
		w.listed[client{q.about, q.Informer}] = w.place()
	}
}

// lookBack finds the clients that must relist soon, because their last list will be dropped the next time the
// file fills up.
func (w *ring) lookBack() {
	const now, then = 16, 4 // fractions of MaxSize: how often to check, and the maximum distance to a list
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

// lost marks clients that must relist.
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

// expires reports whether to answer a watch with 410 Gone, to make its client relist.
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

// tooOld responds to a watch like a server whose history no longer includes the requested version.
type tooOld struct{}

func (tooOld) RoundTrip(req *http.Request) (*http.Response, error) {
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the recorder requests a list before it drops the last one (recording.Options.Relist)","reason":"Expired","code":410}` + "\n"
	resp := response(req, Answer{Status: http.StatusGone, ContentType: "application/json"}, io.NopCloser(bytes.NewReader([]byte(status))))
	resp.ContentLength = int64(len(status))
	return resp, nil
}
