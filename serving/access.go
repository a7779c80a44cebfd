package serving

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
)

const (
	// allowedFor and refusedFor are how long a verdict counts, and with it how
	// late a right that was taken away or given is noticed.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second

	// maxVerdicts bounds what is remembered, whatever tokens are tried.
	maxVerdicts = 1024

	// reviewPatience is how long the API server may think about one request.
	reviewPatience = 10 * time.Second
)

// Access lets the API server decide who may ask: the bearer token of a request
// is checked with a TokenReview, and its user with a SubjectAccessReview for
// the verb (get, post, ...) on the path as a non-resource URL. So a ClusterRole
// like the following opens /metrics to whom it is bound:
//
//	rules:
//	- nonResourceURLs: ["/metrics"]
//	  verbs: ["get"]
//
// Our own account needs to create both kinds of reviews (the ClusterRole
// system:auth-delegator). Verdicts are remembered for a minute, refusals for
// ten seconds. While the API server cannot be asked, the answer is 503. The
// client's scheme must know both kinds.
func Access(client *rest.Client, logger *slog.Logger, next http.Handler) http.Handler {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &access{
		next: next, log: logger, verdicts: map[question]verdict{},
		tokens: rest.ResourceForMapping[*authenticationv1.TokenReview](client, discovery.Mapping{
			Kind:     authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
			Resource: authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"),
		}),
		rights: rest.ResourceForMapping[*authorizationv1.SubjectAccessReview](client, discovery.Mapping{
			Kind:     authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
			Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews"),
		}),
	}
}

type access struct {
	next   http.Handler
	log    *slog.Logger
	tokens *rest.Resource[*authenticationv1.TokenReview]
	rights *rest.Resource[*authorizationv1.SubjectAccessReview]

	mu       sync.Mutex // guards verdicts; not held while the server is asked
	verdicts map[question]verdict
}

// question is what a verdict answers. It holds no token, only its hash.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

type verdict struct {
	code   int // 200, 401 or 403
	reason string
	until  time.Time
}

func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token is required", http.StatusUnauthorized)
		return
	}
	v, err := a.judge(r.Context(), token, strings.ToLower(r.Method), r.URL.Path)
	switch {
	case err != nil:
		a.log.Warn("the API server could not be asked who may read", "path", r.URL.Path, "err", err)
		http.Error(w, "the API server could not be asked", http.StatusServiceUnavailable)
	case v.code != http.StatusOK:
		http.Error(w, v.reason, v.code)
	default:
		a.next.ServeHTTP(w, r)
	}
}

func (a *access) judge(ctx context.Context, token, verb, path string) (verdict, error) {
	q := question{token: sha256.Sum256([]byte(token)), verb: verb, path: path}
	a.mu.Lock()
	v, known := a.verdicts[q]
	a.mu.Unlock()
	if known && time.Now().Before(v.until) {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	code, reason, err := a.ask(ctx, token, verb, path)
	if err != nil {
		return verdict{}, err
	}
	v = verdict{code: code, reason: reason, until: time.Now().Add(refusedFor)}
	if code == http.StatusOK {
		v.until = time.Now().Add(allowedFor)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verdicts) >= maxVerdicts {
		clear(a.verdicts)
	}
	a.verdicts[q] = v
	return v, nil
}

// ask has the token and the right reviewed.
func (a *access) ask(ctx context.Context, token, verb, path string) (code int, reason string, err error) {
	who, err := a.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, "", err
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, "the token is not valid", nil
	}
	user := who.Status.User
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}
	if len(user.Extra) > 0 {
		spec.Extra = map[string]authorizationv1.ExtraValue{}
		for name, values := range user.Extra {
			spec.Extra[name] = authorizationv1.ExtraValue(values)
		}
	}
	may, err := a.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return 0, "", err
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, fmt.Sprintf("%s may not %s %s", user.Username, verb, path), nil
	}
	return http.StatusOK, "", nil
}
