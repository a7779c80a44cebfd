package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// Limits on unauthenticated requests. A service account token is about 1 KB; a token from an identity
// provider is rarely more than 8 KB.
const (
	maxToken  = 16 << 10
	maxMethod = 16
	maxPath   = 1 << 10
)

// Access authenticates and authorizes requests through the API server: it checks the request's bearer
// token with a TokenReview, and the user's permission with a SubjectAccessReview for the verb (get,
// post, ...) on the path as a non-resource URL. For example, a ClusterRole with this rule lets its
// subjects read /metrics:
//
//	rules:
//	- nonResourceURLs: ["/metrics"]
//	  verbs: ["get"]
//
// The program's own account must be allowed to create both kinds of reviews (the ClusterRole
// system:auth-delegator). The client's scheme must contain both kinds.
//
// Access caches approvals for a minute and denials for ten seconds, at most 1024 of each, using a few hundred
// bytes per entry. Identical concurrent requests share a single decision. At most 16 reviews for unknown
// callers are in progress at a time, and at most 256 more are queued. Callers that were allowed recently have
// a separate queue and do not wait behind unknown callers. If the API server cannot be reached, or if too
// many requests are waiting, the response is a 503.
func Access(client *rest.Client, logger *slog.Logger, next http.Handler) http.Handler {
	if next == nil {
		panic(failure.Place(1) + ": the handler for Access is nil")
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &access{
		next: next, log: logger,
		reviews: reviews{
			tokens: rest.ResourceForMapping[*authenticationv1.TokenReview](client, discovery.Mapping{
				Kind:     authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
				Resource: authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"),
			}),
			rights: rest.ResourceForMapping[*authorizationv1.SubjectAccessReview](client, discovery.Mapping{
				Kind:     authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
				Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews"),
			}),
			flights:   map[question]*flight{},
			strangers: newLine(maxReviews), known: newLine(maxKnownReviews),
		},
	}
}

type access struct {
	next    http.Handler
	log     *slog.Logger
	reviews reviews

	mu     sync.Mutex // guards warned
	warned time.Time
}

// warnEvery is the minimum time between warnings that the API server cannot be reached. Without it, any
// caller could flood the log.
const warnEvery = 10 * time.Second

func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	switch {
	case len(r.Method) > maxMethod:
		http.Error(w, "the method is too long", http.StatusBadRequest)
		return
	case len(r.URL.Path) > maxPath:
		http.Error(w, "the path is too long", http.StatusRequestURITooLong)
		return
	case token == "" || !strings.EqualFold(scheme, "Bearer"):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token is required", http.StatusUnauthorized)
		return
	case len(token) > maxToken:
		http.Error(w, "the token is too long", http.StatusUnauthorized)
		return
	}
	verb, path := strings.ToLower(r.Method), r.URL.Path
	v, err := a.reviews.judge(r.Context(), token, verb, path)
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		a.warn(r.Context(), path, err)
		http.Error(w, "could not ask the API server", http.StatusServiceUnavailable)
	case v.code == http.StatusUnauthorized:
		http.Error(w, "the token is not valid", v.code)
	case v.code == http.StatusForbidden:
		http.Error(w, fmt.Sprintf("%s may not %s %s", v.user, verb, path), v.code)
	default:
		a.next.ServeHTTP(w, r)
	}
}

// warn logs why a request could not be authorized, unless it has just logged a warning or the caller has
// disconnected.
func (a *access) warn(ctx context.Context, path string, err error) {
	a.mu.Lock()
	now := time.Now()
	said := ctx.Err() != nil || now.Sub(a.warned) < warnEvery
	if !said {
		a.warned = now
	}
	a.mu.Unlock()
	if !said {
		a.log.Warn("could not ask the API server to authorize a request", "path", path, "err", err)
	}
}
