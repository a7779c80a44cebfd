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

// mostAnswer limits how much of a response a client reads, in bytes.
const mostAnswer = 64 << 20

// Client queries a [Process] in another program. Its methods fail with a
// [*RefusedError] if the process responds with an error. It is safe for concurrent use.
type Client struct {
	base    string
	http    *http.Client
	conceal func(text string, sent *http.Request) string

	behind atomic.Int64 // a Duration: how far the process's clock is behind ours
}

// Attach returns a client of the process that serves [Path] below base, such as "http://localhost:6060".
// A nil HTTP client means http.DefaultClient. The client follows no redirects, because a process sends
// none, and an impostor could redirect the client, with its caller's credentials, to any address.
func Attach(base string, client *http.Client) *Client {
	if client == nil {
		client = http.DefaultClient
	}
	staying := *client
	staying.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimSuffix(strings.TrimSuffix(base, "/"), strings.TrimSuffix(Path, "/")) + Path + "v1/", http: &staying,
		conceal: func(text string, _ *http.Request) string { return text }}
}

// ConcealWith sets a function that removes a request's credentials from responses that the client
// quotes. Such a response may come from something other than the process, such as a proxy that echoes
// them. Use config.Config.Conceal for an HTTP client that this Config built. Call ConcealWith before
// using the client.
func (c *Client) ConcealWith(conceal func(text string, sent *http.Request) string) {
	c.conceal = conceal
}

// RefusedError is an error response from a process, or from something that answers in its place.
type RefusedError struct {
	Code int // HTTP status
	Text string
}

// Error returns the text of the response with its HTTP status.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s (HTTP %d)", strings.TrimSuffix(e.Text, "."), e.Code)
}

// Which selects an informer. Empty fields match any.
type Which struct {
	Informer string // its name, such as "pods in namespace shop", or just the resource if that is unambiguous
	Type     string // type of its objects, such as "*v1.Pod"
	Cluster  string
	Own      bool // only the process's own cluster, whose name is empty
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
	Search    string // part of the name
	Limit     int
	Continue  string // from the previous page
}

// Status returns the status of the process. If its clock differs from ours by seconds or more, Status
// converts all times to our clock, so they show correctly how long ago something happened.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	s, err := get[Status](ctx, c, "status", nil)
	if err != nil || s.At.IsZero() {
		return s, err
	}
	units.Shift(s, c.clock(time.Since(s.At)))
	return s, nil
}

// clock returns how far the process's clock is behind ours, given a response that arrived just now and
// whose time is ago in the past. It ignores differences that the network may cause, so equal times stay
// equal from one response to the next.
func (c *Client) clock(ago time.Duration) time.Duration {
	const onItsWay = 2 * time.Second
	behind := time.Duration(c.behind.Load())
	if (ago - behind).Abs() > onItsWay {
		behind = ago
		c.behind.Store(int64(behind))
	}
	return behind
}

// Objects returns one page of object heads.
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

// Indexes returns the indexes of an informer, each with up to limit of its largest
// buckets.
func (c *Client) Indexes(ctx context.Context, which Which, limit int) (*Indexes, error) {
	v := which.values()
	v.Set("limit", strconv.Itoa(max(limit, 1)))
	return get[Indexes](ctx, c, "indexes", v)
}

// Queue returns the keys of a controller or queue, up to limit of each state.
func (c *Client) Queue(ctx context.Context, name string, limit int) (*Keys, error) {
	return get[Keys](ctx, c, "queue", url.Values{"name": {name}, "limit": {strconv.Itoa(max(limit, 1))}})
}

// Timeline returns the known events of one key. If informer is not empty, only changes from that
// informer are included.
func (c *Client) Timeline(ctx context.Context, informer string, key object.Key) (*Timeline, error) {
	v := url.Values{}
	set(v, "informer", informer)
	return get[Timeline](ctx, c, "timeline", ofKey(v, key))
}

// Why explains why an object has not been reconciled, or why it was reconciled late. If informer and
// controller are not empty, they narrow the answer.
func (c *Client) Why(ctx context.Context, informer, controller string, key object.Key) (*Why, error) {
	v := url.Values{}
	set(v, "informer", informer)
	set(v, "controller", controller)
	return get[Why](ctx, c, "why", ofKey(v, key))
}

// WhyOf is like [Client.Why], but for an object that the process may not be able to assign to a replica.
// hash is the object's hash by the shard.Key of the process's groups (see Why.Unowned).
func (c *Client) WhyOf(ctx context.Context, informer, controller string, key object.Key, hash uint64) (*Why, error) {
	v := url.Values{"hash": {strconv.FormatUint(hash, 16)}}
	set(v, "informer", informer)
	set(v, "controller", controller)
	return get[Why](ctx, c, "why", ofKey(v, key))
}

// Busiest returns the keys with the most changes and reconciles in the last seconds.
func (c *Client) Busiest(ctx context.Context, seconds, limit int) (*Busiest, error) {
	return get[Busiest](ctx, c, "busiest", url.Values{"seconds": {strconv.Itoa(max(seconds, 1))}, "limit": {strconv.Itoa(max(limit, 1))}})
}

// Stacks returns the stacks of the running calls of a handler, of a controller, or of an informer's
// handlers. If name is empty, it returns those of all.
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
		return nil, fmt.Errorf("%s of the process: %w", what, err)
	}
	if len(text) > mostAnswer {
		return nil, fmt.Errorf("%s of the process: the answer has more than %d bytes", what, mostAnswer)
	}
	answer := new(T)
	if err := units.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("%s of the process: %w; is it of another version?", what, err)
	}
	return answer, nil
}

// mostTries is how often the client tries a busy process that says when to retry.
const mostTries = 5

// open sends a query and returns the body of a successful response with content type want.
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

// ask is open without retries. If the process is busy, again says when to retry.
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
		return nil, 0, &RefusedError{resp.StatusCode, fmt.Sprintf("the server at %s redirects to another address, which is not followed: give the address of the process itself", req.URL.Redacted())}
	}
	if version != "" && version != protocol {
		return nil, 0, &RefusedError{resp.StatusCode, fmt.Sprintf("%s speaks version %q of the protocol, and this is %s: use a client of the release of the process", req.URL.Redacted(), conceal(version), protocol)}
	}
	sends := strconv.Quote(conceal(form))
	if form == "" {
		sends = "no Content-Type"
	}
	foreign := &RefusedError{resp.StatusCode, fmt.Sprintf("the server at %s is not a Millrace process: it sends %s", req.URL.Redacted(), sends)}
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

// soon parses Retry-After. A process asks for one second, but an impostor may ask for a day.
func soon(seconds string) time.Duration {
	n, _ := strconv.Atoi(seconds) // if it is not a number, do not retry
	return min(max(0, time.Duration(n)*time.Second), 5*time.Second)
}

// said returns the message of the metav1.Status in text, or "" if text is not one. An API server that
// acts as the proxy sends them.
func said(text []byte) string {
	var status struct{ Kind, Message string }
	if json.Unmarshal(text, &status) != nil || status.Kind != "Status" {
		return ""
	}
	return status.Message
}

// Events yields events as they happen, until ctx is done, the process ends, or the loop is left. If an
// event's Lost is positive, that many events are missing, and its Entry is zero.
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
			yield(Event{}, fmt.Errorf("events of the process: %w", err))
		}
	}
}

// Event is one event in a stream.
type Event struct {
	flight.Entry
	Lost uint64 `json:",omitzero"`
}

// WriteJSON writes a Client's result in the format of the protocol, indented. It
// escapes characters that could control a terminal.
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

// WriteJSONLine is [WriteJSON] on one line.
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
