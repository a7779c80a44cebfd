package debug

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// recordingForm is the content type used for recordings.
const recordingForm = "application/octet-stream"

// recording streams the recording file from the start, and then everything that is appended to it. The stream
// ends with the recording, or when the oldest requests are dropped from the file.
func (p *Process) recording(w http.ResponseWriter, r *http.Request) {
	recorder := p.opts.Recording
	switch {
	case recorder == nil:
		fail(w, refuse(http.StatusNotFound, "This process is not recording, or does not expose its recording: set config.Config.Recorder and, without a manager, debug.Options.Recording."))
		return
	case !p.opts.Contents:
		fail(w, refuse(http.StatusNotFound, "A recording includes object contents, which this process does not show: set debug.Options.Contents or manager.Options.DebugContents to allow it."))
		return
	case recorder.Status().Secrets:
		fail(w, refuse(http.StatusNotFound, "This process's recording contains Secrets, which are never shown: copy the file from the host."))
		return
	}
	done, ok := p.place(w)
	if !ok {
		return
	}
	defer done()
	w.Header().Set("Content-Type", recordingForm)
	if r.Method == http.MethodHead { // the response would never end
		return
	}
	s := stream{w: w, control: http.NewResponseController(w)}
	if s.write(nil) != nil {
		return
	}
	ended := p.ends.of(r)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	tail, part := recorder.Tail(), make([]byte, 64<<10)
	for {
		n, err := tail.Next(part)
		if n > 0 && s.write(part[:n]) != nil || err != nil {
			return
		}
		if n > 0 {
			continue
		}
		select {
		case <-look.C:
		case <-r.Context().Done():
			return
		case <-ended:
			return
		}
	}
}

// Recording returns a stream of the process's recording, for use with recording.Save: the whole file so far,
// and then everything that is appended to it. The stream ends when the recording ends, when the process drops
// the oldest requests from its file, or when ctx is done. The caller must close it.
func (c *Client) Recording(ctx context.Context) (io.ReadCloser, error) {
	return c.open(ctx, "recording", url.Values{}, recordingForm)
}
