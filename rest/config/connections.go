package config

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

var errCertificateReplaced = errors.New("the client certificate was replaced, and connections using the old one were closed")

// connections groups the connections that presented the same client certificate.
type connections struct {
	open  context.Context // done when they are closed
	close func()
}

// newConnections returns nil if there is no client certificate.
func newConnections(settings *tls.Config) *connections {
	if len(settings.Certificates) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &connections{open: ctx, close: cancel}
}

// dialer wraps dial and registers its connections so that close can close them.
func (c *connections) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &connection{conn, c.open, context.AfterFunc(c.open, func() {
			_ = conn.Close() // readers receive errCertificateReplaced
		})}, nil
	}
}

// connection is a member of connections.
type connection struct {
	net.Conn
	open   context.Context
	forget func() bool
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.open.Err() != nil {
		err = errCertificateReplaced
	}
	return n, err
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}
