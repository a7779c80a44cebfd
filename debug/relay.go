package debug

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Handler returns a handler for [Path] that serves the process c is attached to, using this program's page.
// It relays only version 1 queries, and only responses that are JSON, events or a recording. No headers are
// relayed. The server must control access; see serving.Local.
func (c *Client) Handler() http.Handler {
	relay := &relay{client: c}
	mux := http.NewServeMux()
	addPage(mux)
	for _, what := range []string{"status", "objects", "object", "indexes", "queue", "timeline", "why", "busiest", "events", "goroutines", "stacks", "recording"} {
		mux.HandleFunc(Path+"v1/"+what, func(w http.ResponseWriter, r *http.Request) { relay.pass(w, r, what) })
	}
	return readOnly(mux)
}

// relay forwards queries to a process.
type relay struct {
	client *Client
	ends   endings
}

// pass forwards one query and streams the response until either side closes the connection or the server
// shuts down.
func (l *relay) pass(w http.ResponseWriter, r *http.Request, what string) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, refuse(http.StatusBadRequest, "Invalid query: %v.", err))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	ended := l.ends.of(r)
	watching.Go(func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	})
	form := "application/json"
	switch what {
	case "events":
		form = "text/event-stream"
	case "recording":
		form = recordingForm
	}
	body, err := l.client.open(ctx, what, values, form)
	if err != nil {
		fail(w, passedOn(err))
		return
	}
	defer body.Close()
	w.Header().Set("Content-Type", form)
	if r.Method == http.MethodHead {
		return
	}
	if err := copyAnswer(w, body); err != nil && ctx.Err() == nil {
		panic(http.ErrAbortHandler) // otherwise a truncated response would look complete
	}
}

// passedOn converts an error to an error response. It uses the process's own text or, if there is none, says
// that the process does not respond.
func passedOn(err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	switch {
	case ok && refused.Code >= http.StatusBadRequest:
		return refuse(refused.Code, "%s", refused.Text)
	case ok:
		return refuse(http.StatusBadGateway, "%s", refused.Text)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // the address may contain a password
	}
	return refuse(http.StatusBadGateway, "The process does not respond: %v.", err)
}

// copyAnswer copies a response in chunks. It flushes each chunk and gives each a deadline.
func copyAnswer(w http.ResponseWriter, body io.Reader) error {
	control := http.NewResponseController(w)
	part := make([]byte, 32<<10)
	for {
		n, err := body.Read(part)
		if n > 0 {
			// Writers that do not support deadlines, such as a test's recorder, do not have slow readers.
			_ = control.SetWriteDeadline(time.Now().Add(patience))
			if _, err := w.Write(part[:n]); err != nil {
				return nil // the client has disconnected or does not read
			}
			if err := control.Flush(); err != nil {
				return fmt.Errorf("cannot flush the response: %w", err)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
