package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// maxRawBytes limits the size of a raw response's body. The largest is the OpenAPI document, which is around
// ten megabytes on a server with many custom resources.
const maxRawBytes = 64 << 20

// maxPlain limits the size of Client.plain. No server has that many resources.
const maxPlain = 10_000

// Client talks to one API server. It is safe for concurrent use. It keeps connections open, but apart from
// net/http's goroutines it starts none.
type Client struct {
	http     *http.Client
	base     *url.URL
	log      *slog.Logger
	config   *config.Config // a private copy
	scheme   *runtime.Scheme
	cbor     bool // request CBOR first
	learned  *discovery.Mapper
	mapper   kindMapper // set from the server, except in tests that replace it
	warnings warningLog

	fieldManager, fieldValidation string // from the Config

	mu      sync.Mutex // guards the rest
	plain   map[object.GVR]bool
	cluster *string // see Cluster; nil until known
	refused pause   // see Cluster
}

// NewClient returns a client for the server described by cfg. It sends no requests, so if the server is
// unreachable, only the first verb fails. The client looks up Go types in scheme, which may be nil if all
// objects are unstructured or metadata-only.
func NewClient(cfg *config.Config, scheme *runtime.Scheme) (*Client, error) {
	if cfg == nil {
		return nil, errors.New("new client: the config is nil: use config.Load or fill in Config.Host")
	}
	httpClient, base, err := cfg.HTTPClient()
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	if scheme == nil {
		scheme = runtime.NewScheme()
	}
	c := &Client{
		http:   httpClient,
		base:   base,
		log:    cfg.Logger,
		config: cfg.Clone(),
		scheme: scheme,
		cbor:   cfg.CBOR,
		plain:  map[object.GVR]bool{},

		fieldManager: cfg.FieldManager, fieldValidation: cfg.FieldValidation,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.learned = discovery.NewMapper(c.document, c.log)
	c.mapper = c.learned
	return c, nil
}

// mustExist panics with a clear message if the client is nil.
func (c *Client) mustExist() {
	if c == nil {
		panic("rest: the client is nil: create one with rest.NewClient")
	}
}

// Scheme returns the scheme in which the client looks up Go types.
func (c *Client) Scheme() *runtime.Scheme {
	c.mustExist()
	return c.scheme
}

// Mapper returns the client's mapper from kinds to resources. The mapper sends its first request on
// first use.
func (c *Client) Mapper() *discovery.Mapper {
	c.mustExist()
	return c.learned
}

// CloseIdleConnections closes connections that are not in use. Call it when the client
// is no longer needed.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Raw sends a GET for an absolute path, such as "/version" or "/healthz?verbose", and returns the response
// body, which is limited to 64 MiB. If the response does not indicate success, the error is an
// *errors.StatusError.
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	path, rawQuery, _ := strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("get %q: want an absolute path such as \"/version\"", path)
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, fmt.Errorf("get %q: the query is malformed: %w", path, err)
	}
	if strings.Contains(path, "/proxy/") {
		ctx = confidential.Mark(ctx) // a program behind the server's proxy may have a path like that of a list
	}
	req := &request{verb: "get", method: http.MethodGet, what: path, path: path, query: query, accept: acceptAny, repeat: idempotent}
	resp, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer finishBody(resp)
	body, err := readBody(resp, maxRawBytes)
	if err != nil {
		return nil, req.wrap(err)
	}
	return body, nil
}

// document implements discovery.Get. Its errors omit the path, which package discovery adds.
func (c *Client) document(ctx context.Context, path, accept string) (body []byte, contentType string, err error) {
	req := &request{verb: "get", method: http.MethodGet, path: path, accept: accept, repeat: idempotent}
	resp, err := c.do(ctx, req)
	if err != nil {
		return nil, "", err
	}
	defer finishBody(resp)
	if !isJSON(resp) {
		return nil, "", c.foreign(resp)
	}
	if body, err = readBody(resp, maxRawBytes); err != nil {
		return nil, "", err
	}
	// Conceal the credentials here, because the mapper quotes documents in its errors.
	return concealDocument(body, c.conceal(resp)), resp.Header.Get("Content-Type"), nil
}

// wantsPlain reports whether the server has rejected a request for gvr that asked for more than plain JSON:
// protobuf, CBOR, or leaving out managed fields.
func (c *Client) wantsPlain(gvr object.GVR) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plain[gvr]
}

func (c *Client) setPlain(gvr object.GVR) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plain) >= maxPlain {
		clear(c.plain) // otherwise every resource would cost an extra request
	}
	c.plain[gvr] = true
}

// maxWarnings limits the number of distinct warnings to remember. Beyond that, all of them are forgotten, so
// some may be logged again.
const maxWarnings = 1000

// maxWarning limits the length of a warning, in bytes. The API server limits the total length of webhook
// warnings to 4 KiB.
const maxWarning = 4 << 10

// maxAnswerWarnings limits the number of warnings read from a response. The API server sends only a few.
const maxAnswerWarnings = 20

// moreWarnings is logged in place of the remaining warnings.
const moreWarnings = "the answer has more warnings, which are not shown"

// warningLog logs each distinct server warning once (RFC 7234, section 5.5; the API server uses only
// code 299). The zero value is ready to use.
type warningLog struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (w *warningLog) report(ctx context.Context, log *slog.Logger, what string, headers []string, conceal func(string) string) {
	if len(headers) == 0 {
		return
	}
	// Also conceal before parsing: parsing removes backslashes, so credentials that contain any would no
	// longer be recognized.
	shown := slices.Clone(headers[:min(len(headers), maxAnswerWarnings)])
	for i, header := range shown {
		shown[i] = conceal(header)
	}
	// Ignore malformed headers: they have no text to log, and the caller cannot fix them.
	warnings, _ := utilnet.ParseWarningHeaders(shown)
	more := len(headers) > maxAnswerWarnings || len(warnings) > maxAnswerWarnings
	for _, warning := range warnings[:min(len(warnings), maxAnswerWarnings)] {
		if warning.Code != 299 || warning.Text == "" {
			continue
		}
		w.log(ctx, log, what, shortened(conceal(warning.Text)))
	}
	if more {
		w.log(ctx, log, what, moreWarnings)
	}
}

// log logs text unless it was logged before.
func (w *warningLog) log(ctx context.Context, log *slog.Logger, what, text string) {
	if w.isNew(text) {
		log.LogAttrs(ctx, slog.LevelWarn, text, slog.String("source", "API server"), slog.String("request", what))
	}
}

// shortened truncates a long warning, because it is kept in seen.
func shortened(text string) string {
	if len(text) > maxWarning {
		return strings.ToValidUTF8(text[:maxWarning], "") + "..."
	}
	return text
}

func (w *warningLog) isNew(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] {
		return false
	}
	if w.seen == nil || len(w.seen) >= maxWarnings {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	return true
}
