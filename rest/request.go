package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/source"
)

// request is an API call in a form that can be sent repeatedly.
type request struct {
	verb        string // Kubernetes verb, for messages: "list"
	what        string // the object or resource, for messages: "pods in namespace x"
	resource    schema.GroupResource
	name        string
	method      string
	path        string // absolute, escaped
	query       url.Values
	accept      string
	contentType string // type of body
	body        []byte
	repeat      repeat
	stream      bool // a list or a watch, whose body may take a long time to arrive
}

// describe identifies the request in messages: "list pods in namespace x".
func (r *request) describe() string { return strings.TrimSpace(r.verb + " " + r.what) }

// wrap adds a description of the request to err, unless the caller does so.
func (r *request) wrap(err error) error {
	if r.what == "" {
		return err
	}
	return fmt.Errorf("%s: %w", r.describe(), err)
}

// do sends the request, and resends it if the server asks for that or the connection breaks. It
// returns a successful response, whose body the caller must close. Otherwise, it returns an
// *errors.StatusError, or the reason why there was no response.
func (c *Client) do(ctx context.Context, r *request) (*http.Response, error) {
	spent := patience{recall: jitter.RecallOf(ctx)}
	broken := r.repeat != idempotent || r.method != http.MethodGet // no retry after a broken connection, or none left
	for {
		resp, err := c.send(ctx, r)
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			if err != nil && !broken && disconnected(err) && ctx.Err() == nil {
				broken = true
				continue
			}
			return resp, err
		}
		wait, again := spent.next(refused)
		if !again || !r.repeat.after(refused.code) {
			return nil, refused.status
		}
		c.log.LogAttrs(ctx, slog.LevelDebug, "the server asks to retry later",
			slog.String("verb", r.verb), slog.String("path", r.path), slog.Int("status", refused.code), slog.Duration("wait", wait))
		source.ProgressOf(ctx).Rest(fmt.Sprintf("the end of the pause requested by %s", c.base.Host))
		if err := sleep(ctx, wait); err != nil {
			return nil, r.wrap(fmt.Errorf("waiting to try again (%w) after: %w", err, refused.status))
		}
	}
}

// send sends the request once. An unsuccessful response is returned as a *refusal.
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, r.wrap(fmt.Errorf("not sent: %w", err)) // the server is not to blame
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, progress, sending := traced(ctx, c.base.Host, cmp.Or(c.config.Timeout, maxBodyTime), cancel)
	req, err := c.newRequest(ctx, r)
	if err != nil {
		cancel(nil)
		return nil, r.wrap(err)
	}
	start := time.Now()
	resp, err := c.http.Do(req)
	sending.Stop()
	if err != nil {
		defer cancel(nil) // deferred, because noAnswer must first check whether the caller canceled
		err = withoutURL(err)
		c.logRequest(ctx, r, start, slog.Any("error", err))
		err = noAnswer(ctx, c.base.Host, progress, err)
		if halfOpen(err) {
			c.CloseIdleConnections()
		}
		return nil, r.wrap(err)
	}
	progress.Step(c.base.Host, stepBody)
	resp.Body = &body{resp.Body, c.base.Host, func() { cancel(nil) }}
	c.logRequest(ctx, r, start, slog.Int("status", resp.StatusCode))
	c.warnings.report(ctx, c.log, r.what, resp.Header["Warning"], c.conceal(resp))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer finishBody(resp)
		return nil, newRefusal(c.base.Host, r, resp, c.conceal(resp))
	}
	if enc := contentEncoding(resp); enc != "" {
		finishBody(resp)
		return nil, r.wrap(fmt.Errorf("%s answered with content encoding %q, which was not requested", c.base.Host, excerpt(c.conceal(resp)(enc))))
	}
	return resp, nil
}

func (c *Client) newRequest(ctx context.Context, r *request) (*http.Request, error) {
	path, err := url.PathUnescape(r.path)
	if err != nil {
		// JoinPath would silently treat it as an empty path.
		return nil, fmt.Errorf("the path %q is malformed: %w: escape its segments with url.PathEscape", excerpt(r.path), err)
	}
	if slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		// JoinPath or a proxy could resolve it to a path outside the server's URL.
		return nil, fmt.Errorf("the path %q has a segment . or ..: remove it", excerpt(r.path))
	}
	u := c.base.JoinPath(r.path)
	u.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header.Set("Accept", r.accept)
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	return req, nil
}

// logRequest omits headers, which contain tokens, and the query, which contains selectors and long
// continue tokens.
func (c *Client) logRequest(ctx context.Context, r *request, start time.Time, outcome slog.Attr) {
	if !c.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, "request",
		slog.String("verb", r.verb), slog.String("path", r.path), outcome, slog.Duration("duration", time.Since(start)))
}

// withoutURL removes the URL that net/http adds to errors, because it is long and our messages already
// identify the request.
func withoutURL(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

const (
	// maxDrain limits how much of a body to read just so that its connection can be reused. Reading more
	// would cost more than a new connection.
	maxDrain = 64 << 10

	// maxDrainTime is the time limit for draining a body.
	maxDrainTime = time.Second

	// maxBodyTime is the time limit for reading a body that is not a stream. Such a body has at most a few
	// megabytes, which the server sends at once. It also limits sending if Config.Timeout is zero.
	maxBodyTime = time.Minute
)

// finishBody closes a response body. If little is left, it first drains the body, so that HTTP/1.1 can reuse
// the connection.
func finishBody(resp *http.Response) {
	if resp.ContentLength > maxDrain {
		resp.Body.Close()
		return
	}
	// Close interrupts a read in progress.
	late := time.AfterFunc(maxDrainTime, func() { resp.Body.Close() })
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	late.Stop()
	resp.Body.Close()
}

// readBody reads a body of at most limit bytes within maxBodyTime. If it fails, it also returns the
// bytes read so far.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= 1<<20 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	late := time.AfterFunc(maxBodyTime, func() { resp.Body.Close() }) // Close interrupts a read
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if !late.Stop() {
		return buf.Bytes(), fmt.Errorf("the body did not end within %v; %d bytes of it arrived", maxBodyTime, n)
	}
	if err != nil {
		return buf.Bytes(), fmt.Errorf("read the body after %d bytes: %w", n, err)
	}
	if n > limit {
		return buf.Bytes(), fmt.Errorf("the body is larger than %d bytes", limit)
	}
	return buf.Bytes(), nil
}

// sleep waits for d. If ctx is done first, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
