package controllertest

import (
	"net"
	"sync"
)

// deaf is a listener that never accepts a connection. It is used for webhooks of a manager under test.
type deaf struct {
	closed chan struct{}
	close  func()
}

func newDeaf() *deaf {
	d := &deaf{closed: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d
}

func (d *deaf) Accept() (net.Conn, error) {
	<-d.closed
	return nil, net.ErrClosed
}

func (d *deaf) Close() error {
	d.close()
	return nil
}

func (d *deaf) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9443} }
