package main

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// version is which state of which object.
type version struct {
	UID string `json:",omitzero"`
	RV  string `json:",omitzero"`
}

// served is what the server has, as a list of version rv shows it.
type served struct {
	rv      string
	objects map[object.Key]version
	only    map[object.Key]bool // the keys that were asked for; nil for all
}

// covers reports whether the list would have an object of this key.
func (s *served) covers(key object.Key) bool { return s.only == nil || s.only[key] }

// part is one scope of an informer, and where its objects are listed.
type part struct {
	scope
	resource *rest.Resource[*metav1.PartialObjectMetadata]
}

const (
	// expiries is how often a list is begun anew that took longer than the server's history.
	expiries = 3

	// mostSingly is how many objects are looked up one by one; more are listed with all others.
	mostSingly = 100
)

// read lists the objects of all parts consistently: the lists are those of a quorum, and the
// version is that of the newest. Keys, if they are not nil, are all that is of interest.
func read(ctx context.Context, parts []part, keys map[object.Key]bool) (*served, error) {
	all := &served{objects: map[object.Key]version{}, only: keys}
	for _, p := range parts {
		if keys == nil || len(keys) > mostSingly {
			if err := p.read(ctx, "", all); err != nil {
				return nil, err
			}
			continue
		}
		for key := range keys {
			of := part{p.scope, p.resource}
			if key.Namespace != "" {
				narrowed, ok := p.within(key.Namespace)
				if !ok {
					continue
				}
				of = part{narrowed, p.resource.Namespace(key.Namespace)}
			}
			if err := of.read(ctx, key.Name, all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// read adds what one list has.
func (p part) read(ctx context.Context, name string, to *served) error {
	for try := 1; ; try++ {
		list := p.resource.List(ctx, p.list(name))
		found, err := map[object.Key]version{}, error(nil)
		for o, failed := range list.Items {
			if failed != nil {
				err = failed
				break
			}
			found[object.KeyOf(o)] = version{string(o.GetUID()), o.GetResourceVersion()}
		}
		if err != nil && (!apierrors.IsResourceExpired(err) || try == expiries) {
			return &listError{err}
		}
		if err != nil {
			continue
		}
		for key, v := range found {
			if to.covers(key) {
				to.objects[key] = v
			}
		}
		if rv := list.Meta.ResourceVersion; to.rv == "" || newer(rv, to.rv) {
			to.rv = rv
		}
		return nil
	}
}

// newer reports whether a is known to be newer than b.
func newer(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order > 0
}

// server returns a client of the cluster. What looks into a process at a URL uses the flags
// about TLS and the token there, and not here.
func (v *sight) server(s surroundings) (target, error) {
	if v.client != nil {
		return target{client: v.client, server: v.called}, nil
	}
	load := v.flags.connect.load
	if !strings.HasPrefix(v.flags.to, "pod/") {
		load = config.LoadOptions{
			Kubeconfig: load.Kubeconfig, Context: load.Context, Cluster: load.Cluster, User: load.User,
			Server: load.Server, Impersonate: load.Impersonate, Timeout: load.Timeout,
		}
	}
	load.Logger = newConsole(s, false).logger()
	cfg, err := config.LoadWith(load)
	if err != nil {
		return target{}, &exitError{code: exitUnavailable, err: err, hint: "--kubeconfig, --context or --server say which cluster to compare with"}
	}
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return target{}, &exitError{code: exitUnavailable, err: err}
	}
	v.config = cfg
	return target{client: client, server: serverName(cfg.Host)}, nil
}

// parts finds where the objects of an informer are served, those of the namespace that the
// flags name.
func (v *sight) parts(ctx context.Context, at target, scopes []scope, c *console) (parts []part, err error) {
	for _, s := range scopes {
		mapping, err := at.resolve(ctx, s.resource, patienceWith(v.config), c)
		if err != nil {
			return nil, at.unavailable(rootCause(err), err)
		}
		if v.flags.to != "" && mapping.Namespaced {
			var left bool
			if s, left = s.within(v.flags.namespace); !left {
				continue
			}
		}
		parts = append(parts, part{s, rest.ResourceForMapping[*metav1.PartialObjectMetadata](at.client, mapping).Namespace(s.namespace)})
	}
	if len(parts) == 0 && len(scopes) > 0 {
		return nil, usage("the informer has no objects of namespace %s: leave out -n", v.flags.namespace)
	}
	return parts, nil
}

// ready waits until all informers of one's own have their objects. It fails where ctx is over
// before, and says what is missing.
func (v *sight) ready(ctx context.Context) error {
	if err := v.wait(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return nil
	}
	if err := v.unsynced(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// unsynced is what informers of one's own have not received yet; nil if nothing is missing.
func (v *sight) unsynced() error {
	for _, o := range v.informers {
		if err := o.Unsynced(); err != nil {
			return err
		}
	}
	return nil
}

// listError is a list that the server did not give.
type listError struct{ err error }

// Error is the server's.
func (e *listError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *listError) Unwrap() error { return e.err }
