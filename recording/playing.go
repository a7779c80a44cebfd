package recording

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
)

// playing is a response being replayed. It is also the response body.
type playing struct {
	replay  *Replay
	stream  *stream
	request *Request
	records *requestReader
	ctx     context.Context

	part []byte // unread part of the current chunk
	err  error  // how the body ended

	once   sync.Once // guards over
	shut   sync.Once // guards closed
	closed chan struct{}
}

// answer waits until the response header is due and returns the response.
func (p *playing) answer(req *http.Request) (*http.Response, error) {
	traced := httptrace.ContextClientTrace(p.ctx)
	if p.request.answered {
		stepSent.retrace(traced)
	}
	rec, err := p.records.next()
	switch {
	case err == io.EOF:
		return nil, p.rest()
	case err != nil:
		return nil, err
	case rec.kind == kindEnd:
		var e ending
		if err := decode(&rec, &e); err != nil {
			return nil, err
		}
		e.Step.retrace(traced)
		return nil, p.ended(&e, rec.at)
	}
	if err := p.wait(rec.at); err != nil {
		return nil, err
	}
	return response(req, p.request.Answer, p), nil
}

// ended replays the end of the response. It always returns an error: io.EOF if the response ended
// normally.
func (p *playing) ended(e *ending, at time.Duration) error {
	if e.Left {
		if err := p.deaf(at); err != nil {
			return err
		}
		return p.rest()
	}
	if err := p.wait(at); err != nil {
		return err
	}
	p.over()
	if err := e.err(); err != nil {
		return err
	}
	return io.EOF
}

// deaf notifies the client that its watch delivers nothing, if the recorded client abandoned this watch to
// probe the server: that client had learned from a signal outside the recording that its watch was dead.
func (p *playing) deaf(at time.Duration) error {
	recall := jitter.RecallOf(p.ctx)
	if probed, _ := recall.Probed(); !probed || !p.request.Watch() {
		return nil
	}
	if err := p.wait(at); err != nil {
		return err
	}
	recall.Deaf()
	return nil
}

// rest blocks until the client gives up, since there is nothing more to replay.
func (p *playing) rest() error {
	p.replay.rest(p.stream, p.request)
	p.over()
	select {
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	case <-p.closed:
		return errStopped
	}
}

// wait waits until at, a time in the recording.
func (p *playing) wait(at time.Duration) error {
	for {
		select {
		case <-p.closed:
			return errStopped
		default:
		}
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		left := p.left(at) // recompute: another response may have been late
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-p.ctx.Done():
		case <-p.closed:
		}
		timer.Stop()
	}
}

// left returns how long to wait until at, a time in the recording.
func (p *playing) left(at time.Duration) time.Duration {
	p.replay.mu.Lock()
	defer p.replay.mu.Unlock()
	return p.replay.until(at)
}

// Read implements io.Reader. It returns data in the same chunks as the recorded reads.
func (p *playing) Read(b []byte) (int, error) {
	for len(p.part) == 0 && p.err == nil && len(b) > 0 {
		p.err = p.advance()
	}
	if len(p.part) > 0 {
		n := copy(b, p.part)
		p.part = p.part[n:]
		return n, nil
	}
	return 0, p.err
}

// advance moves to the next record.
func (p *playing) advance() error {
	rec, err := p.records.next()
	switch {
	case err == io.EOF:
		return p.rest()
	case err != nil:
		p.over()
		return err
	case rec.kind == kindEnd:
		var e ending
		if err := decode(&rec, &e); err != nil {
			return err
		}
		return p.ended(&e, rec.at)
	case rec.kind != kindChunk:
		return nil
	}
	if err := p.wait(rec.at); err != nil {
		return err
	}
	p.part = rec.payload
	return nil
}

func (p *playing) Close() error {
	p.shut.Do(func() { close(p.closed) })
	p.over()
	return nil
}

// over notes that the rest of the response will not be replayed.
func (p *playing) over() {
	p.once.Do(func() {
		p.replay.mu.Lock()
		defer p.replay.mu.Unlock()
		p.stream.playing--
		p.replay.note()
	})
}
