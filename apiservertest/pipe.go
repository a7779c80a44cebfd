package apiservertest

import (
	"context"
	"net"
	"sync"

	"github.com/millrace-dev/millrace/apiservertest/network"
)

// pipeListener accepts the server ends of in-memory connections.
type pipeListener struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{incoming: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.incoming:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

// dial creates a connection and waits until it is accepted.
func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := network.Pipe()
	if err := l.connect(ctx, server); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: err}
	}
	return client, nil
}

// connect waits until the server's end of a connection is accepted.
func (l *pipeListener) connect(ctx context.Context, server net.Conn) error {
	select {
	case l.incoming <- server:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "apiserver.pipe" }
