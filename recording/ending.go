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

// ending describes how a response, or the wait for one, ended. The zero value means that the body ended
// normally.
type ending struct {
	Left    bool     `json:",omitempty"` // the client stopped reading
	Error   string   `json:",omitempty"` // text of the transport error
	Is      []string `json:",omitempty"` // known errors it matches
	Network bool     `json:",omitempty"` // whether it is a net.Error
	Timeout bool     `json:",omitempty"` // net.Error.Timeout
	Dialled string   `json:",omitempty"` // address, if dialing failed
	Lookup  string   `json:",omitempty"` // host name, if its lookup failed
	Step    step     `json:",omitempty"` // last step the request reached
}

// known returns the errors that clients test for.
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

// endingOf converts a transport error.
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

// maxText limits the length of a recorded error text.
const maxText = 4 << 10

// err returns the recorded error, or nil if there was none.
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

// replayed is an error with the text of a recorded error; it matches the same known errors.
type replayed struct{ *ending }

func (e *replayed) Error() string { return e.ending.Error }

func (e *replayed) Is(target error) bool {
	for name, err := range known() {
		if err == target {
			return slices.Contains(e.ending.Is, name)
		}
	}
	return false
}

// As supports the error types that clients use to inspect connection failures.
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

// replayedNetwork is a replayed error that is a net.Error.
type replayedNetwork struct{ *replayed }

func (e *replayedNetwork) Timeout() bool { return e.ending.Timeout }

func (e *replayedNetwork) Temporary() bool { return false }

// address is a net.Addr for an address in a recording.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// step is a stage of a request.
type step string

const (
	stepConnection step = ""
	stepLookup     step = "lookup"
	stepConnect    step = "connect"
	stepHandshake  step = "handshake"
	stepSend       step = "send"
	stepSent       step = "sent"
)

// trace returns a ClientTrace that calls note for each step of a request.
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

// retrace reports a recorded step to the client's own trace.
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
