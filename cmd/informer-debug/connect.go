package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// target is what is watched, and where.
type target struct {
	client    *rest.Client
	server    string // for messages, without credentials
	mapping   discovery.Mapping
	namespace string // empty for all, and for what has no namespaces
}

// String is "pods in namespace shop".
func (t target) String() string {
	name := object.ResourceName(t.mapping.Resource)
	switch {
	case t.namespace != "":
		return name + " in namespace " + t.namespace
	case t.mapping.Namespaced:
		return name + " in all namespaces"
	}
	return name
}

const (
	// resolveTries is how often the server is asked what it serves, a second
	// apart.
	resolveTries = 3

	// resolvePatience bounds all of that, for servers that do not answer.
	resolvePatience = 10 * time.Second

	// loginPatience is the same where a credential plugin may have to ask
	// somebody to log in.
	loginPatience = 2 * time.Minute
)

// patienceWith is how long to wait until the server has said what it serves.
func patienceWith(cfg *config.Config) time.Duration {
	if cfg.Exec != nil {
		return loginPatience
	}
	return resolvePatience
}

// connect finds the server and where it serves TYPE. The target's client, if
// there is one, has to be closed, after an error too.
func (j *job) connect(ctx context.Context) (target, error) {
	t := target{server: serverName(j.config.Host)}
	client, err := rest.NewClient(j.config, nil)
	if err != nil {
		return t, &exitError{code: exitUnavailable, err: err}
	}
	t.client = client
	if t.mapping, err = t.resolve(ctx, j.arg, patienceWith(j.config), j.console); err != nil {
		if errors.Is(context.Cause(ctx), errTimedOut) {
			return t, j.flags.timedOut(rootCause(err))
		}
		if ctx.Err() != nil {
			return t, nil
		}
		return t, t.unavailable(rootCause(err), err)
	}
	if !canWatch(t.mapping) {
		return t, unwatchable(t.mapping)
	}
	switch {
	case !t.mapping.Namespaced:
		if n := j.flags.namespace; n != "" {
			j.console.trouble(time.Now(), "%s have no namespaces: -n %s is ignored", t, n)
		}
	case !j.flags.allNamespaces:
		t.namespace = j.config.Namespace
	}
	return t, nil
}

// canWatch reports whether an informer can be had of a resource.
func canWatch(m discovery.Mapping) bool {
	return slices.Contains(m.Verbs, "list") && slices.Contains(m.Verbs, "watch")
}

// unwatchable is the error for a resource that no informer can be had of.
func unwatchable(m discovery.Mapping) error {
	return &exitError{code: exitUnavailable, err: fmt.Errorf("%s cannot be listed and watched: the server offers only %s",
		object.ResourceName(m.Resource), strings.Join(m.Verbs, ", "))}
}

// resolve asks the server what it serves until it answers.
func (t target) resolve(ctx context.Context, arg object.GVR, patience time.Duration, c *console) (discovery.Mapping, error) {
	silent := fmt.Errorf("no answer within %s", patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, silent)
	defer cancel()
	ctx, stop := late(ctx, c)
	defer stop()
	for try := 1; ; try++ {
		m, err := t.client.Mapper().MappingForResource(ctx, arg)
		if err == nil || try == resolveTries || ctx.Err() != nil || !worthRetrying(err) {
			return m, err
		}
		c.trouble(time.Now(), "%-12s  1s: %v", "connect", rootCause(err))
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return m, err
		}
	}
}

// worthRetrying reports whether a failure to find TYPE may pass by itself.
func worthRetrying(err error) bool {
	_, noMatch := errors.AsType[*discovery.NoMatchError](err)
	_, ambiguous := errors.AsType[*discovery.AmbiguousError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	status, answered := errors.AsType[*apierrors.StatusError](err)
	refused := answered && status.ErrStatus.Code < 500 && status.ErrStatus.Code != 429
	return !noMatch && !ambiguous && !untrusted && !refused
}

// rootCause is the one failure that stands for all where discovery failed
// altogether: each of its requests as a rule fails for the same reason.
func rootCause(err error) error {
	if _, ok := errors.AsType[*discovery.NoMatchError](err); ok {
		return err
	}
	if d, ok := errors.AsType[*discovery.Error](err); ok {
		return d.Failures[0].Err
	}
	return err
}

// unavailable is the error for a server that cannot be used: what to show, and
// the cause to judge by.
func (t target) unavailable(shown, cause error) *exitError {
	e := &exitError{code: exitUnavailable, err: shown}
	_, noMatch := errors.AsType[*discovery.NoMatchError](cause)
	_, ambiguous := errors.AsType[*discovery.AmbiguousError](cause)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](cause)
	_, answered := errors.AsType[*apierrors.StatusError](cause)
	switch {
	case noMatch, ambiguous, untrusted: // they say what to do
	case apierrors.IsUnauthorized(cause):
		e.hint = fmt.Sprintf("%s does not accept the credentials: check the user of the context, --user and --token", t.server)
	case apierrors.IsForbidden(cause):
		e.hint = `ask for the verbs "list" and "watch" on it; "kubectl auth can-i --list" shows what you may do`
	case !answered:
		e.hint = fmt.Sprintf("cannot reach %s; --context or --server choose another server", t.server)
	}
	return e
}

// serverName is an address without credentials.
func serverName(host string) string {
	u, err := url.Parse(host)
	if err != nil {
		return "the API server"
	}
	return u.Redacted()
}
