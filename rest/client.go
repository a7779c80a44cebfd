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

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/wire"
)

// maxRawBytes bounds the body of a raw answer. The OpenAPI document of a server
// with many custom resources is the largest, at some ten megabytes.
const maxRawBytes = 64 << 20

// maxPlain bounds how many resources are remembered for which plain JSON alone is
// spoken. No server has as many.
const maxPlain = 10_000

// Client talks to one API server. It is safe for concurrent use, and has
// connections but no goroutines of its own.
type Client struct {
	http     *http.Client
	base     *url.URL
	log      *slog.Logger
	config   *config.Config // its own copy
	scheme   *runtime.Scheme
	cbor     bool // ask for CBOR first
	learned  *discovery.Mapper
	mapper   kindMapper // learned, unless a test puts another in its place
	warnings warningLog

	fieldManager, fieldValidation string // of the Config

	mu      sync.Mutex // guards the rest
	plain   map[object.GVR]bool
	cluster *string // see Cluster; nil while it is not known
	refused pause   // of Cluster
}

// NewClient returns a client for the server of cfg. It sends nothing: an
// unreachable server shows at the first verb. Go types are looked up in scheme; nil
// will do for unstructured and metadata-only objects.
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

// mustExist names the mistake where a nil pointer would not.
func (c *Client) mustExist() {
	if c == nil {
		panic("rest: the client is nil: make one with rest.NewClient")
	}
}

// Scheme returns the scheme that Go types are looked up in.
func (c *Client) Scheme() *runtime.Scheme {
	c.mustExist()
	return c.scheme
}

// Mapper returns the mapper, which knows where kinds are served. It asks the server
// when it is first asked.
func (c *Client) Mapper() *discovery.Mapper {
	c.mustExist()
	return c.learned
}

// CloseIdleConnections closes the connections that serve no request. Call it when
// the client is no longer needed.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Raw gets an absolute path, such as "/version" or "/healthz?verbose", and
// returns the body of the answer: 64 MiB at most. An answer that is not a success
// is an *errors.StatusError.
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	path, rawQuery, _ := strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("get %q: want an absolute path such as \"/version\"", path)
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, fmt.Errorf("get %q: the query is malformed: %w", path, err)
	}
	req := &request{verb: "get", method: http.MethodGet, what: path, path: path, query: query, accept: wire.MediaJSON + ", */*", repeat: idempotent}
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

// document implements discovery.Get. Its errors do not name the path, since those of
// discovery do.
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
	// The mapper quotes it, and knows nothing of credentials.
	return concealDocument(body, c.conceal(resp)), resp.Header.Get("Content-Type"), nil
}

// wantsPlain reports whether the server has refused, for gvr, what is more than
// plain JSON: protobuf, CBOR, or to leave out managed fields.
func (c *Client) wantsPlain(gvr object.GVR) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plain[gvr]
}

func (c *Client) setPlain(gvr object.GVR) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plain) >= maxPlain {
		clear(c.plain) // each is learned again, at the cost of a request
	}
	c.plain[gvr] = true
}

// maxWarnings bounds how many different warnings are remembered. When there are
// more the memory starts afresh, so that old ones may be logged once more.
const maxWarnings = 1000

// maxWarning bounds the text of one, in bytes. The API server cuts those of webhooks
// at 4 KiB for all together.
const maxWarning = 4 << 10

// maxAnswerWarnings bounds how many warnings of one answer are read. The API server sends a few.
const maxAnswerWarnings = 20

// moreWarnings stands for the others of an answer.
const moreWarnings = "the answer has more warnings, which are not shown"

// warningLog logs the warnings of the server (RFC 7234, section 5.5; only code
// 299 comes from the API), each text once. The zero value is ready.
type warningLog struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (w *warningLog) report(ctx context.Context, log *slog.Logger, what string, headers []string, conceal func(string) string) {
	if len(headers) == 0 {
		return
	}
	// To read a text takes its backslashes out, so that a credential that was quoted in
	// another way is no longer known.
	shown := slices.Clone(headers[:min(len(headers), maxAnswerWarnings)])
	for i, header := range shown {
		shown[i] = conceal(header)
	}
	// A malformed header has no text to show, and is not the caller's trouble.
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

// log logs a text that is new.
func (w *warningLog) log(ctx context.Context, log *slog.Logger, what, text string) {
	if w.isNew(text) {
		log.LogAttrs(ctx, slog.LevelWarn, text, slog.String("source", "API server"), slog.String("request", what))
	}
}

// shortened cuts a warning, which the memory of those that were logged holds.
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
