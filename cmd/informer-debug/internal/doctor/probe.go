package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/wire"
)

const (
	slowAnswer = time.Second        // a response is slow
	probeFor   = 10 * time.Second   // timeout per request
	clockOff   = 5 * time.Second    // clocks differ
	clockWrong = time.Minute        // clock difference that affects leases and tokens
	soon       = 7 * 24 * time.Hour // warning period before a certificate expires
	soonToken  = 10 * time.Minute   // warning period before a token expires
	mostProbed = 8 << 20            // bytes to read of a response
)

// probe examines what a server can do.
type probe struct {
	*findings
	config *config.Config
	http   *http.Client
	base   *url.URL
}

func newProbe(cfg *config.Config, to *findings) (*probe, error) {
	client, base, err := cfg.HTTPClient()
	if err != nil {
		return nil, err
	}
	return &probe{findings: to, config: cfg, http: client, base: base}, nil
}

// resource examines one resource. If first is true, it also examines the server.
func (p *probe) resource(ctx context.Context, at cluster.Target, first bool, period time.Duration) error {
	l, err := p.list(ctx, at, wire.MediaJSON)
	if err != nil {
		return at.Unavailable(err, err)
	}
	if first {
		p.clock(l.Header, time.Now().Add(-l.took/2))
		if l.TLS != nil && len(l.TLS.PeerCertificates) > 0 {
			p.expiry("certificate of the server", l.TLS.PeerCertificates[0].NotAfter, time.Now(), soon, "renew it")
		}
	}
	about := at.String()
	if l.StatusCode == http.StatusOK && l.rv == "" {
		p.add(levelProblem, about, "check which server answers at "+at.Server, "the response to a list is not a list, but has type %q", p.config.Conceal(l.Header.Get("Content-Type"), l.Request))
		return nil
	}
	if p.allowed(l.StatusCode, at, "list") {
		p.latency(about, "a list of one object", l.took)
		p.encodings(ctx, at)
	}
	p.watches(ctx, at, l.rv, period)
	return nil
}

// listed is the response to a list with limit 1.
type listed struct {
	*http.Response
	rv   string // from the list, if it was JSON
	took time.Duration
}

// list requests one object in a given media type, and reads only the beginning of the response.
func (p *probe) list(ctx context.Context, at cluster.Target, accept string) (*listed, error) {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.JoinPath(at.Path()).String()+"?limit=1", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	began := time.Now()
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	defer resp.Body.Close()
	var list metav1.PartialObjectMetadataList
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostProbed))
	if err == nil && accept == wire.MediaJSON {
		_ = json.Unmarshal(body, &list) // anything other than a list has no version
	}
	return &listed{resp, list.ResourceVersion, took}, nil
}

// allowed reports whether a verb is permitted.
func (p *probe) allowed(code int, at cluster.Target, verb string) bool {
	switch {
	case code == http.StatusForbidden:
		p.add(levelProblem, at.String(), "the role below would allow it", "these credentials may not %s", verb)
		p.all[len(p.all)-1].YAML = roleFor(at)
		return false
	case code == http.StatusUnauthorized:
		p.add(levelProblem, at.String(), "check the user of the context, --user and --token", "the server does not accept the credentials")
		return false
	case code >= 400:
		p.add(levelProblem, at.String(), "", "%s returns %d %s", verb, code, http.StatusText(code))
		return false
	}
	p.add(levelOK, at.String(), "", "these credentials may %s", verb)
	return true
}

// roleFor returns a role that allows an informer for the resource. It quotes all names, since the server chooses them.
func roleFor(at cluster.Target) string {
	kind, name, in := "ClusterRole", "informer-"+strings.ReplaceAll(object.ResourceName(at.Mapping.Resource), ".", "-"), ""
	if at.Namespace != "" {
		kind, in = "Role", fmt.Sprintf("  namespace: %q\n", at.Namespace)
	}
	return fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %q\n%srules:\n- apiGroups: [%q]\n  resources: [%q]\n  verbs: [\"get\", \"list\", \"watch\"]\n",
		kind, name, in, at.Mapping.Resource.Group, at.Mapping.Resource.Resource)
}

func (p *probe) latency(about, what string, took time.Duration) {
	if took >= slowAnswer {
		p.add(levelWarning, about, "check the load of the server and the network", "%s took %s to begin", what, terminal.Duration(took))
		return
	}
	p.add(levelOK, about, "", "%s took %s to begin", what, terminal.Duration(took))
}

// encodings finds out which media types the server supports.
func (p *probe) encodings(ctx context.Context, at cluster.Target) {
	var have []string
	for name, media := range map[string]string{"protobuf": wire.MediaProtobuf, "CBOR": wire.MediaCBOR} {
		l, err := p.list(ctx, at, media+", application/json;q=0.5")
		if err == nil && strings.HasPrefix(l.Header.Get("Content-Type"), media) {
			have = append(have, name)
		}
	}
	if len(have) == 0 {
		have = []string{"JSON only"}
	}
	slices.Sort(have)
	p.add(levelOK, at.String(), "", "is available as %s", strings.Join(have, " and "))
}

// watches examines how watches start, streaming lists and bookmarks.
func (p *probe) watches(ctx context.Context, at cluster.Target, rv string, period time.Duration) {
	of := rest.ResourceForMapping[*metav1.PartialObjectMetadata](at.Client, at.Mapping).Namespace(at.Namespace)
	limited, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	yes := true
	began := time.Now()
	streamed, err := of.Watch(limited, metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
	if apierrors.IsForbidden(err) {
		p.allowed(http.StatusForbidden, at, "watch")
		return
	}
	switch streaming := err == nil; {
	case streaming:
		objects, arrived := 0, began
		err = errEnded
		for e, failed := range streamed {
			if failed != nil {
				err = failed
				break
			}
			arrived = time.Now()
			if objects++; e.Type == watch.Bookmark && e.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				p.add(levelOK, at.String(), "", "a streaming list of %d objects took %s", objects-1, terminal.Duration(time.Since(began)))
				err = nil
				break
			}
		}
		switch late := err != nil && limited.Err() != nil; {
		case late && objects > 0 && time.Since(arrived) < slowAnswer: // objects are still arriving
			p.add(levelOK, at.String(), "", "a streaming list returned %d objects within %s, which is inconclusive: it was not read to its end", objects, probeFor)
			err = nil
		case late:
			err = fmt.Errorf("the server did not end it within %s", probeFor)
		}
		if err != nil {
			p.add(levelWarning, at.String(), "reflectors fall back to lists", "a streaming list did not end: %v", err)
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		p.add(levelWarning, at.String(), "the WatchList feature of the server would save it memory", "the server does not support streaming lists")
	default:
		p.add(levelProblem, at.String(), "", "cannot open a watch: %v", err)
		return
	}
	p.bookmarks(ctx, at, of, rv, period)
}

// errEnded means that the server, or a proxy, closed a watch.
var errEnded = errors.New("the connection was closed")

// bookmarks counts the bookmarks received on a watch during the period.
func (p *probe) bookmarks(ctx context.Context, at cluster.Target, of *rest.Resource[*metav1.PartialObjectMetadata], rv string, period time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	began := time.Now()
	events, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: rv, AllowWatchBookmarks: true})
	if err != nil {
		p.add(levelProblem, at.String(), "", "cannot open a watch: %v", err)
		return
	}
	p.latency(at.String(), "a watch", time.Since(began))
	var seen []time.Time
	err = errEnded
	for e, failed := range events {
		if failed != nil {
			err = failed
			break
		}
		if e.Type == watch.Bookmark {
			seen = append(seen, time.Now())
		}
	}
	if ctx.Err() == nil {
		p.add(levelProblem, at.String(), "look for a proxy or load balancer that closes connections, and at the server's log", "a watch ended after %s: %v", terminal.Duration(time.Since(began)), err)
		return
	}
	switch n := len(seen); {
	case n == 0 && period >= 90*time.Second:
		p.add(levelWarning, at.String(), "each interruption of the watch may require a list", "no bookmark arrived within %s", period)
	case n == 0:
		p.add(levelOK, at.String(), "", "no bookmark arrived within %s, which is inconclusive: a server sends one about once a minute; see --for", period)
	case n == 1:
		p.add(levelOK, at.String(), "", "a bookmark arrived after %s", terminal.Duration(seen[0].Sub(began)))
	default:
		p.add(levelOK, at.String(), "", "bookmarks arrive every %s", terminal.Duration(seen[n-1].Sub(seen[0])/time.Duration(n-1)))
	}
}

// clock compares the server's clock with ours, to the second.
func (p *probe) clock(head http.Header, at time.Time) {
	theirs, err := http.ParseTime(head.Get("Date"))
	if err != nil {
		p.add(levelOK, "clock", "", "the server does not report its time")
		return
	}
	off := theirs.Add(500 * time.Millisecond).Sub(at).Round(time.Second)
	const do = "check time synchronisation on both sides"
	switch apart := max(off, -off); {
	case apart >= clockWrong:
		p.add(levelProblem, "clock", do, "the server's differs by %s: tokens, certificates and leases depend on synchronized clocks", off)
	case apart >= clockOff:
		p.add(levelWarning, "clock", do, "the server's differs by %s", off)
	default:
		p.add(levelOK, "clock", "", "matches the server's within a few seconds")
	}
}

// credentials checks when the credentials expire. It never prints them.
func (p *probe) credentials(now time.Time) {
	if at, ok := tokenExpiry(p.config); ok {
		p.expiry("token", at, now, soonToken, "get a new one")
	}
	if at, ok := certificateExpiry(p.config); ok {
		p.expiry("certificate of the client", at, now, soon, "renew it")
	}
}

func (p *probe) expiry(about string, at, now time.Time, soon time.Duration, do string) {
	switch left := at.Sub(now); {
	case left <= 0:
		p.add(levelProblem, about, do, "expired %s ago", terminal.Duration(-left))
	case left < soon:
		p.add(levelWarning, about, do, "expires in %s", terminal.Duration(left))
	default:
		p.add(levelOK, about, "", "expires in %s", terminal.Duration(left))
	}
}

// tokenExpiry returns the expiry claimed by an RFC 7519 token. It does not verify the token.
func tokenExpiry(cfg *config.Config) (time.Time, bool) {
	token := cfg.BearerToken
	if cfg.BearerTokenFile != "" {
		text, err := config.ReadFile(cfg.BearerTokenFile)
		if err != nil {
			return time.Time{}, false // reported by the client itself
		}
		token = strings.TrimSpace(string(text))
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(body, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}

func certificateExpiry(cfg *config.Config) (time.Time, bool) {
	data := cfg.TLS.CertData
	if len(data) == 0 && cfg.TLS.CertFile != "" {
		data, _ = config.ReadFile(cfg.TLS.CertFile) // reported by the client itself
	}
	block, _ := pem.Decode(bytes.TrimSpace(data))
	if block == nil {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}
