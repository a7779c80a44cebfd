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

// What a request may bring along before anybody knows who sends it. A token of a
// service account has about 1 KB, one of an identity provider seldom more than 8.
const (
	maxToken  = 16 << 10
	maxMethod = 16
	maxPath   = 1 << 10
)

// Access lets the API server decide who may ask: the bearer token of a request
// is checked with a TokenReview, and its user with a SubjectAccessReview for
// the verb (get, post, ...) on the path as a non-resource URL. So a ClusterRole
// like the following opens /metrics to its subjects:
//
//	rules:
//	- nonResourceURLs: ["/metrics"]
//	  verbs: ["get"]
//
// Our own account needs to create both kinds of reviews (the ClusterRole
// system:auth-delegator). The client's scheme must know both kinds.
//
// A verdict is remembered for a minute, a refusal for ten seconds, and of each
// no more than 1024 of a few hundred bytes. Equal requests that come together
// are decided together. At most 16 reviews are under way for strangers, and 256
// more may wait for them; callers that were allowed lately have a line of their
// own, and do not wait behind strangers. While the API server cannot be asked,
// or too many wait, the answer is 503.
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

// warnEvery is how often a log says that the API server cannot be asked. Anybody
// can make it be asked.
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
		http.Error(w, "the API server could not be asked", http.StatusServiceUnavailable)
	case v.code == http.StatusUnauthorized:
		http.Error(w, "the token is not valid", v.code)
	case v.code == http.StatusForbidden:
		http.Error(w, fmt.Sprintf("%s may not %s %s", v.user, verb, path), v.code)
	default:
		a.next.ServeHTTP(w, r)
	}
}

// warn says why nobody could be let in, unless it was said just now or the caller
// has gone.
func (a *access) warn(ctx context.Context, path string, err error) {
	a.mu.Lock()
	now := time.Now()
	said := ctx.Err() != nil || now.Sub(a.warned) < warnEvery
	if !said {
		a.warned = now
	}
	a.mu.Unlock()
	if !said {
		a.log.Warn("the API server could not be asked who may read", "path", path, "err", err)
	}
}
