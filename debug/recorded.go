package debug

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// recordingForm is the content type of a recording.
const recordingForm = "application/octet-stream"

// recording streams the recording file from its beginning, and then everything that is appended. The
// stream ends with the recording, or when the file drops its oldest requests.
func (p *Process) recording(w http.ResponseWriter, r *http.Request) {
	recorder := p.opts.Recording
	switch {
	case recorder == nil:
		fail(w, refuse(http.StatusNotFound, "This process records nothing, or does not show it: a manager does with config.Config.Recorder, others with debug.Options.Recording, too."))
		return
	case !p.opts.Contents:
		fail(w, refuse(http.StatusNotFound, "This process shows no contents, and a recording has them: debug.Options.Contents or manager.Options.DebugContents allows it."))
		return
	case recorder.Status().Secrets:
		fail(w, refuse(http.StatusNotFound, "The recording of this process contains Secrets, which are never shown: copy the file from its machine."))
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

// Recording returns the recording of the process's clients, for recording.Save: the whole file, and then
// everything that is appended. It ends when the recording ends, when the process drops the oldest
// requests from its file, or when ctx is done. The caller must close it.
func (c *Client) Recording(ctx context.Context) (io.ReadCloser, error) {
	return c.open(ctx, "recording", url.Values{}, recordingForm)
}
