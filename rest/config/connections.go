package config

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

var errCertificateReplaced = errors.New("the client certificate was replaced, and the connections that showed the former one were closed")

// connections are those that showed one client certificate.
type connections struct {
	open  context.Context // until they are closed
	close func()
}

// newConnections returns nil if no client certificate is shown.
func newConnections(settings *tls.Config) *connections {
	if len(settings.Certificates) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &connections{open: ctx, close: cancel}
}

// dialer returns a dialer whose connections are closed with all others.
func (c *connections) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &connection{conn, c.open, context.AfterFunc(c.open, func() {
			_ = conn.Close() // its reader gets errCertificateReplaced
		})}, nil
	}
}

// connection is one of connections.
type connection struct {
	net.Conn
	open   context.Context
	forget func() bool
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.open.Err() != nil {
		err = errCertificateReplaced
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}
