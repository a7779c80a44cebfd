package recording

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"syscall"
)

// ending is how an answer, or the wait for one, ended. The zero value is the end of a body
// in good order.
type ending struct {
	Left    bool     `json:",omitempty"` // the client wanted no more of it
	Error   string   `json:",omitempty"` // of the transport
	Is      []string `json:",omitempty"` // which known errors it is
	Network bool     `json:",omitempty"` // it is a net.Error
	Timeout bool     `json:",omitempty"` // of a net.Error
	Dialled string   `json:",omitempty"` // the address, where the connection failed
	Lookup  string   `json:",omitempty"` // the name, where its lookup failed
	Step    step     `json:",omitempty"` // how far the request had come
}

// known are the errors that a client tells apart.
func known() map[string]error {
	return map[string]error{
		"eof":             io.EOF,
		"unexpected eof":  io.ErrUnexpectedEOF,
		"closed":          net.ErrClosed,
		"refused":         syscall.ECONNREFUSED,
		"reset":           syscall.ECONNRESET,
		"broken pipe":     syscall.EPIPE,
		"scheme mismatch": http.ErrSchemeMismatch,
	}
}

// endingOf describes an error of the transport.
func endingOf(err error, at step) ending {
	e := ending{Error: err.Error(), Step: at}
	if len(e.Error) > maxText {
		e.Error = strings.ToValidUTF8(e.Error[:maxText], "")
	}
	for name, target := range known() {
		if errors.Is(err, target) {
			e.Is = append(e.Is, name)
		}
	}
	slices.Sort(e.Is)
	if network, ok := errors.AsType[net.Error](err); ok {
		e.Network, e.Timeout = true, network.Timeout()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		e.Dialled = "?"
		if op.Addr != nil {
			e.Dialled = op.Addr.String()
		}
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		e.Lookup = lookup.Name
	}
	return e
}

// maxText is how much of an error is kept.
const maxText = 4 << 10

// err is the error as it was. It is nil where there was none.
func (e *ending) err() error {
	if e.Error == "" {
		return nil
	}
	again := &replayed{ending: e}
	if e.Network {
		return &replayedNetwork{again}
	}
	return again
}

// replayed is an error of a recording: it says what it said, and is what it was.
type replayed struct{ *ending }

func (e *replayed) Error() string { return e.ending.Error }

// Is implements the interface of errors.Is.
func (e *replayed) Is(target error) bool {
	for name, err := range known() {
		if err == target {
			return slices.Contains(e.ending.Is, name)
		}
	}
	return false
}

// As implements the interface of errors.As, for what a client wants to know of a
// connection that could not be opened.
func (e *replayed) As(target any) bool {
	switch as := target.(type) {
	case **net.OpError:
		if e.Dialled == "" {
			return false
		}
		*as = &net.OpError{Op: "dial", Net: "tcp", Err: e}
		if e.Dialled != "?" {
			(*as).Addr = address(e.Dialled)
		}
		return true
	case **net.DNSError:
		*as = &net.DNSError{Err: e.ending.Error, Name: e.Lookup}
		return e.Lookup != ""
	}
	return false
}

// replayedNetwork is one that is a net.Error.
type replayedNetwork struct{ *replayed }

// Timeout implements net.Error.
func (e *replayedNetwork) Timeout() bool { return e.ending.Timeout }

// Temporary implements net.Error.
func (e *replayedNetwork) Temporary() bool { return false }

// address is one of a connection.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// step is how far a request has come.
type step string

const (
	stepConnection step = ""
	stepLookup     step = "lookup"
	stepConnect    step = "connect"
	stepHandshake  step = "handshake"
	stepSend       step = "send"
	stepSent       step = "sent"
)

// trace notes the steps of a request.
func trace(note func(step)) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:           func(string) { note(stepConnection) },
		DNSStart:          func(httptrace.DNSStartInfo) { note(stepLookup) },
		ConnectStart:      func(string, string) { note(stepConnect) },
		TLSHandshakeStart: func() { note(stepHandshake) },
		GotConn:           func(httptrace.GotConnInfo) { note(stepSend) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				note(stepSent)
			}
		},
	}
}

// retrace tells who traces a request that it has come to a step.
func (s step) retrace(t *httptrace.ClientTrace) {
	if t == nil {
		return
	}
	switch {
	case s == stepLookup && t.DNSStart != nil:
		t.DNSStart(httptrace.DNSStartInfo{})
	case s == stepConnect && t.ConnectStart != nil:
		t.ConnectStart("tcp", "")
	case s == stepHandshake && t.TLSHandshakeStart != nil:
		t.TLSHandshakeStart()
	case s == stepSend && t.GotConn != nil:
		t.GotConn(httptrace.GotConnInfo{})
	case s == stepSent && t.WroteRequest != nil:
		t.WroteRequest(httptrace.WroteRequestInfo{})
	}
}
