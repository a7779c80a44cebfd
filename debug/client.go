package debug

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/debug/internal/units"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/internal/printable"
	"github.com/millrace-dev/millrace/object"
)

// mostAnswer is the maximum size of a response, in bytes.
const mostAnswer = 64 << 20

// Client queries a [Process] in another program. Its methods return a [*RefusedError] if the process
// responds with an error. It is safe for concurrent use.
type Client struct {
	base    string
	http    *http.Client
	conceal func(text string, sent *http.Request) string

	behind atomic.Int64 // a time.Duration: how far the process's clock is behind ours
}

// Attach returns a client for the process that serves [Path] under base, such as "http://localhost:6060". If
// client is nil, http.DefaultClient is used. Redirects are not followed: a process never sends any, and an
// impostor could use one to have the caller's credentials sent elsewhere.
func Attach(base string, client *http.Client) *Client {
	if client == nil {
		client = http.DefaultClient
	}
	staying := *client
	staying.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimSuffix(strings.TrimSuffix(base, "/"), strings.TrimSuffix(Path, "/")) + Path + "v1/", http: &staying,
		conceal: func(text string, _ *http.Request) string { return text }}
}

// ConcealWith sets a function that removes a request's credentials from response text quoted in errors. Such
// text may come from another server, such as a proxy that echoes the request. If the HTTP client was built
// from a config.Config, pass its Conceal method. Call ConcealWith before using the client.
func (c *Client) ConcealWith(conceal func(text string, sent *http.Request) string) {
	c.conceal = conceal
}

// RefusedError is an error response from the process, or from another server at its address.
type RefusedError struct {
	Code int // HTTP status
	Text string
}

// Error returns the text and HTTP status of the response.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s (HTTP %d)", strings.TrimSuffix(e.Text, "."), e.Code)
}

// Which selects an informer. Empty fields match anything.
type Which struct {
	Informer string // name, such as "pods in namespace shop", or just the resource if unambiguous
	Type     string // object type, such as "*v1.Pod"
	Cluster  string
	Own      bool // if set, match only the process's own cluster, whose name is empty
}

func (w Which) values() url.Values {
	v := url.Values{}
	set(v, "informer", w.Informer)
	set(v, "type", w.Type)
	if set(v, "cluster", w.Cluster); w.Own {
		v.Set("cluster", "")
	}
	return v
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// Page selects objects. The zero value selects the first hundred objects.
type Page struct {
	Namespace string
	Selector  string // label selector
	Search    string // substring of the name
	Limit     int
	Continue  string // Objects.Continue of the previous page
}

// Status returns the status of the process. If the process's clock differs from ours by seconds or more, all
// times are converted to our clock, so that ages computed from them are correct.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s, err := get[Status](ctx, c, "status", nil)
	if err != nil || s.At.IsZero() {
		return s, err
	}
	units.Shift(s, c.clock(time.Since(s.At)))
	return s, nil
}

// clock returns how far the process's clock is behind ours, given the apparent age of a response that just
// arrived. It ignores differences that could just be network latency, so that a given time does not change
// from one response to the next.
func (c *Client) clock(ago time.Duration) time.Duration {
	const onItsWay = 2 * time.Second
	behind := time.Duration(c.behind.Load())
	if (ago - behind).Abs() > onItsWay {
		behind = ago
		c.behind.Store(int64(behind))
	}
	return behind
}

// Objects returns one page of objects, each reduced to its [Head].
func (c *Client) Objects(ctx context.Context, which Which, page Page) (*Objects, error) {
	v := which.values()
	set(v, "namespace", page.Namespace)
	set(v, "selector", page.Selector)
	set(v, "search", page.Search)
	set(v, "continue", page.Continue)
	if page.Limit > 0 {
		v.Set("limit", strconv.Itoa(page.Limit))
	}
	return get[Objects](ctx, c, "objects", v)
}

// Object returns one object.
func (c *Client) Object(ctx context.Context, which Which, key object.Key) (*Object, error) {
	return get[Object](ctx, c, "object", ofKey(which.values(), key))
}

func ofKey(v url.Values, key object.Key) url.Values {
	set(v, "namespace", key.Namespace)
	set(v, "name", key.Name)
	return v
}

// Indexes returns an informer's indexes, each with up to limit of its largest buckets.
func (c *Client) Indexes(ctx context.Context, which Which, limit int) (*Indexes, error) {
	v := which.values()
	v.Set("limit", strconv.Itoa(max(limit, 1)))
	return get[Indexes](ctx, c, "indexes", v)
}

// Queue returns the keys in a controller's queue or another work queue, up to limit per state.
func (c *Client) Queue(ctx context.Context, name string, limit int) (*Keys, error) {
	return get[Keys](ctx, c, "queue", url.Values{"name": {name}, "limit": {strconv.Itoa(max(limit, 1))}})
}

// Timeline returns the recorded events for a key. If informer is not empty, only changes from that
// informer are included.
func (c *Client) Timeline(ctx context.Context, informer string, key object.Key) (*Timeline, error) {
	v := url.Values{}
	set(v, "informer", informer)
	return get[Timeline](ctx, c, "timeline", ofKey(v, key))
}

// Why explains why an object has not been reconciled, or was reconciled late. If informer or controller
// is not empty, only that informer or controller is considered.
func (c *Client) Why(ctx context.Context, informer, controller string, key object.Key) (*Why, error) {
	v := url.Values{}
	set(v, "informer", informer)
	set(v, "controller", controller)
	return get[Why](ctx, c, "why", ofKey(v, key))
}

// WhyOf is like [Client.Why], for objects whose owner the process may be unable to determine. hash is the
// object's hash under the shard.Key of the process's groups (see Why.Unowned).
func (c *Client) WhyOf(ctx context.Context, informer, controller string, key object.Key, hash uint64) (*Why, error) {
	v := url.Values{"hash": {strconv.FormatUint(hash, 16)}}
	set(v, "informer", informer)
	set(v, "controller", controller)
	return get[Why](ctx, c, "why", ofKey(v, key))
}

// Busiest returns the keys with the most changes and reconciles in the given number of seconds.
func (c *Client) Busiest(ctx context.Context, seconds, limit int) (*Busiest, error) {
	return get[Busiest](ctx, c, "busiest", url.Values{"seconds": {strconv.Itoa(max(seconds, 1))}, "limit": {strconv.Itoa(max(limit, 1))}})
}

// Stacks returns the stacks of running calls to a handler, a controller's reconciler, or an informer's
// handlers. If name is empty, it returns all of them.
func (c *Client) Stacks(ctx context.Context, name string) (*Stacks, error) {
	v := url.Values{}
	set(v, "name", name)
	return get[Stacks](ctx, c, "stacks", v)
}

// Goroutines returns the number of goroutines per package.
func (c *Client) Goroutines(ctx context.Context) (*Goroutines, error) {
	return get[Goroutines](ctx, c, "goroutines", nil)
}

func get[T any](ctx context.Context, c *Client, what string, v url.Values) (*T, error) {
	body, err := c.open(ctx, what, v, "application/json")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, mostAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("debug query %s: %w", what, err)
	}
	if len(text) > mostAnswer {
		return nil, fmt.Errorf("debug query %s: the response exceeds %d bytes", what, mostAnswer)
	}
	answer := new(T)
	if err := units.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("debug query %s: %w; is the process running another version of Millrace?", what, err)
	}
	return answer, nil
}

// mostTries is how many times to send a request to a process that is busy and responds with Retry-After.
const mostTries = 5

// open sends a query and returns the response body. The response must be successful and have content type
// want.
func (c *Client) open(ctx context.Context, what string, v url.Values, want string) (io.ReadCloser, error) {
	for try := 1; ; try++ {
		body, again, err := c.ask(ctx, what, v, want)
		if again == 0 || try == mostTries {
			return body, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// ask is like open, but does not retry. If the process is busy, again is how long to wait before retrying.
func (c *Client) ask(ctx context.Context, what string, v url.Values, want string) (body io.ReadCloser, again time.Duration, err error) {
	address := c.base + what
	if len(v) > 0 {
		address += "?" + v.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	form, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // empty if there is none
	version := resp.Header.Get(mark)
	conceal := func(text string) string { return c.conceal(text, resp.Request) }
	if resp.StatusCode == http.StatusOK && form == want && version == protocol {
		return resp.Body, 0, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode <= 399 {
		return nil, 0, &RefusedError{resp.StatusCode, fmt.Sprintf("the server at %s redirects to another address, which is not followed: use the address of the process itself", req.URL.Redacted())}
	}
	if version != "" && version != protocol {
		return nil, 0, &RefusedError{resp.StatusCode, fmt.Sprintf("%s speaks protocol version %q, but this client speaks %s: use a client from the same release as the process", req.URL.Redacted(), conceal(version), protocol)}
	}
	sends := strconv.Quote(conceal(form))
	if form == "" {
		sends = "no Content-Type"
	}
	foreign := &RefusedError{resp.StatusCode, fmt.Sprintf("the server at %s is not a Millrace process: it sent %s", req.URL.Redacted(), sends)}
	if resp.StatusCode == http.StatusOK { // such as a proxy's login page
		return nil, 0, foreign
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil && len(text) == 0 {
		text = []byte(err.Error())
	}
	text = bytes.TrimSpace(text)
	switch status := said(text); {
	case status != "":
		return nil, 0, &RefusedError{resp.StatusCode, conceal(status)}
	case form == "application/json", form == "text/html", version == "" && len(text) == 0:
		return nil, 0, foreign
	case resp.StatusCode == http.StatusServiceUnavailable && version == protocol:
		again = soon(resp.Header.Get("Retry-After"))
	}
	return nil, again, &RefusedError{resp.StatusCode, conceal(string(text))}
}

// soon parses Retry-After. A process always sends one second, but an impostor may send any value.
func soon(seconds string) time.Duration {
	n, _ := strconv.Atoi(seconds) // if it is not a number, do not retry
	return min(max(0, time.Duration(n)*time.Second), 5*time.Second)
}

// said returns the message in text if it is a metav1.Status, as sent by an API server acting as a proxy.
// Otherwise it returns "".
func said(text []byte) string {
	var status struct{ Kind, Message string }
	if json.Unmarshal(text, &status) != nil || status.Kind != "Status" {
		return ""
	}
	return status.Message
}

// Events yields events as they happen, until ctx is done, the process exits, or the caller breaks out of the
// loop. If an event's Lost is positive, the stream dropped that many events at this point, and its Entry is
// zero.
func (c *Client) Events(ctx context.Context, informer string, key object.Key) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		v := url.Values{}
		set(v, "informer", informer)
		body, err := c.open(ctx, "events", ofKey(v, key), "text/event-stream")
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		name := ""
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "event":
				name = value
			case "data":
				e, err := readEvent(name, []byte(value))
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
		if err := lines.Err(); err != nil && ctx.Err() == nil {
			yield(Event{}, fmt.Errorf("debug query events: %w", err))
		}
	}
}

// Event is one event in a stream.
type Event struct {
	flight.Entry
	Lost uint64 `json:",omitzero"`
}

// WriteJSON writes a result from a [Client] as indented JSON in the protocol's format. It escapes
// terminal control characters.
func WriteJSON(w io.Writer, answer any) error {
	text, err := units.Marshal(answer)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, printable.JSON(text), "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err = b.WriteTo(w)
	return err
}

// WriteJSONLine is like [WriteJSON], but writes a single line.
func WriteJSONLine(w io.Writer, answer any) error {
	text, err := units.Marshal(answer)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

func readEvent(name string, data []byte) (e Event, err error) {
	if name == "lost" {
		var l Lost
		err = units.Unmarshal(data, &l)
		return Event{Lost: l.Count}, err
	}
	err = units.Unmarshal(data, &e.Entry)
	return e, err
}
