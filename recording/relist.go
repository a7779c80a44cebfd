package recording

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"time"
)

// relistEvery is how often a client is asked at most to list again, so that a file that is too
// small for a list does not make it list without end.
const relistEvery = 15 * time.Minute

// maxCourses bounds how many clients are asked to list again.
const maxCourses = 10_000

// course is what a recorder knows of one client.
type course struct {
	lost     bool      // the file has no list of it any more
	relisted time.Time // when it was asked to list again; zero for never
}

// begun notes a request that goes into the file.
func (w *ring) begun(payload []byte) (s size) {
	var q Request
	if json.Unmarshal(payload, &q) == nil && q.fill() {
		s.of, s.first = client{q.about, q.Informer}, q.initial() && q.parameter("continue") == ""
	}
	if s.first {
		w.lists[s.of]++
	}
	return s
}

// lose notes a request that goes out of the file. It reports whether its client cannot be played
// any more, since that was the last of its lists.
func (w *ring) lose(s size) bool {
	if !s.first {
		return false
	}
	if w.lists[s.of]--; w.lists[s.of] > 0 {
		return false
	}
	delete(w.lists, s.of)
	return true
}

// lost notes clients that cannot be played any more.
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

// expires reports whether a watch is to be told that it comes too late, so that its client
// lists again.
func (r *Recorder) expires(q *Request) bool {
	if rv := q.parameter("resourceVersion"); !r.opts.Relist || rv == "" || rv == "0" || q.initial() || r.withholds(q) {
		return false // without a version it follows no list
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

// tooOld answers a watch as a server does that does not know the version any more.
type tooOld struct{}

// RoundTrip implements http.RoundTripper.
func (tooOld) RoundTrip(req *http.Request) (*http.Response, error) {
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the recorder wants a list, since it had to leave the last one out (recording.Options.Relist)","reason":"Expired","code":410}` + "\n"
	resp := response(req, Answer{Status: http.StatusGone, ContentType: "application/json"}, io.NopCloser(bytes.NewReader([]byte(status))))
	resp.ContentLength = int64(len(status))
	return resp, nil
}
