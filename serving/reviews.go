package serving

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

const (
	// maxReviews is how many reviews for unknown callers may run at a time; maxKnownReviews is the limit for
	// callers that were allowed recently.
	maxReviews      = 16
	maxKnownReviews = 4

	// maxWaiting is how many questions may be queued, for each of the two groups.
	maxWaiting = 256

	// reviewPatience limits the time to decide one question, including time spent queued.
	reviewPatience = 10 * time.Second
)

// errBusy means that too many questions are pending.
var errBusy = errors.New("too many requests are waiting to be authorized")

// reviews asks the API server to decide and caches its verdicts.
type reviews struct {
	tokens *rest.Resource[*authenticationv1.TokenReview]
	rights *rest.Resource[*authorizationv1.SubjectAccessReview]

	mu      sync.Mutex // guards the fields below; not held during requests
	allowed verdicts
	refused verdicts
	flights map[question]*flight

	strangers, known line
}

// line is a queue of questions.
type line struct {
	turns chan struct{} // a token for each question being decided
	open  int           // questions being decided and waiting; guarded by reviews.mu
}

func newLine(turns int) line { return line{turns: make(chan struct{}, turns)} }

// flight is a pending question. Its goroutine ends when it has a verdict or an error, or when no callers are
// waiting anymore.
type flight struct {
	callers int   // guarded by reviews.mu
	line    *line // the queue it belongs to
	cancel  context.CancelFunc

	done    chan struct{} // closed once the fields below are set
	verdict verdict
	err     error
}

// judge returns the verdict on a request, cached or new.
func (r *reviews) judge(ctx context.Context, token, verb, path string) (verdict, error) {
	q := ask(token, verb, path)
	r.mu.Lock()
	if v, ok := r.remembered(q, ask(token)); ok {
		r.mu.Unlock()
		return v, nil
	}
	f := r.flights[q]
	if f == nil {
		in := r.lineFor(q)
		if in.open >= cap(in.turns)+maxWaiting {
			r.mu.Unlock()
			return verdict{}, errBusy
		}
		f = r.begin(ctx, in, q, token, verb, path)
	}
	f.callers++
	r.mu.Unlock()
	select {
	case <-f.done:
		return f.verdict, f.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.callers--; f.callers == 0 {
		f.cancel()
		r.forget(q, f) // so that the next caller starts a new review
	}
	return verdict{}, context.Cause(ctx)
}

// remembered returns a valid cached verdict on the question or on just the token. The caller must hold mu.
func (r *reviews) remembered(q, token question) (verdict, bool) {
	now := time.Now()
	if v, ok := r.allowed[q]; ok && now.Sub(v.when) < allowedFor {
		return v, true
	}
	for _, q := range []question{q, token} {
		if v, ok := r.refused[q]; ok && now.Sub(v.when) < refusedFor {
			return v, true
		}
	}
	return verdict{}, false
}

// lineFor returns the queue for a question. The caller must hold mu.
func (r *reviews) lineFor(q question) *line {
	if v, ok := r.allowed[q]; ok && time.Since(v.when) < knownFor {
		return &r.known
	}
	return &r.strangers
}

// begin opens a question. The caller must hold mu. The question is not canceled with its first caller's
// context, since others may be waiting for it too.
func (r *reviews) begin(ctx context.Context, in *line, q question, token, verb, path string) *flight {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewPatience)
	f := &flight{line: in, cancel: cancel, done: make(chan struct{})}
	r.flights[q] = f
	in.open++
	token, verb, path = strings.Clone(token), strings.Clone(verb), strings.Clone(path)
	go func() {
		defer cancel()
		defer close(f.done)
		guard := failure.Guard{In: "the client's transport"}
		defer func() { r.end(q, token, f) }()
		defer guard.End(&f.err, func(err error) { f.err = err })
		select {
		case in.turns <- struct{}{}:
			defer func() { <-in.turns }()
			f.verdict, f.err = r.ask(ctx, token, verb, path)
		case <-ctx.Done():
			f.err = context.Cause(ctx)
		}
		guard.Returned()
	}()
	return f
}

// end records the verdict on a question.
func (r *reviews) end(q question, token string, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(q, f)
	if f.err != nil {
		return
	}
	if r.allowed == nil {
		r.allowed, r.refused = verdicts{}, verdicts{}
	}
	switch f.verdict.code {
	case http.StatusOK:
		r.allowed.add(q, f.verdict, knownFor)
		return
	case http.StatusUnauthorized:
		q = ask(token) // reject all questions with this token
	}
	r.refused.add(q, f.verdict, refusedFor)
}

// forget closes a question, unless it has been reopened. The caller must hold mu.
func (r *reviews) forget(q question, f *flight) {
	if r.flights[q] == f {
		delete(r.flights, q)
		f.line.open--
	}
}

// ask requests a review of the token, and then of the permission.
func (r *reviews) ask(ctx context.Context, token, verb, path string) (verdict, error) {
	ctx = config.WithSecret(ctx, token) // the server may echo the token
	who, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, err
	}
	if !who.Status.Authenticated {
		return verdict{code: http.StatusUnauthorized, when: time.Now()}, nil
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
	may, err := r.rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return verdict{}, err
	}
	v := verdict{code: http.StatusForbidden, user: user.Username, when: time.Now()}
	if may.Status.Allowed {
		v.code = http.StatusOK
	}
	return v, nil
}
