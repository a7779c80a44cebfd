package rest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
)

// Config says where the API server is.
type Config struct {
	Host      string
	UserAgent string
	Logger    *slog.Logger
	Dial      func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (c *Config) httpClient() (*http.Client, *url.URL, error) {
	base, err := url.Parse(c.Host)
	if err != nil {
		return nil, nil, err
	}
	return &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: c.Dial}}, base, nil
}
