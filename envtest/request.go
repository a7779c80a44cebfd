package envtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// poll is the delay between checks of the server's state.
const poll = 20 * time.Millisecond

// patience limits the wait for a reaction by the server, which takes less than a second on an idle
// machine.
const patience = time.Minute

// refusal is a response with an unexpected status.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", r.code, http.StatusText(r.code), r.message)
}

// client returns an HTTP client that trusts the server's CA, with patience as its timeout. The caller must
// close its idle connections.
func (s *Server) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: patience}
}

// ask sends a request, with body as JSON unless it is nil, and decodes the response.
func (s *Server) ask(ctx context.Context, client *http.Client, method, path, contentType string, body, into any) error {
	var r io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, r)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.AdminToken)
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var status struct{ Message string }
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = string(text)
		}
		return &refusal{resp.StatusCode, status.Message + s.aboutWebhooks(status.Message)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// await calls check until it returns true or an error. Its error includes what.
func await(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("timed out after %v", patience))
	defer cancel()
	for {
		ok, err := check(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
		if err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
		}
	}
}
