package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
)

const (
	// resolveTries is the number of attempts at discovery, a second apart.
	resolveTries = 3

	// resolvePatience limits the total time for all attempts if the server does not respond.
	resolvePatience = 10 * time.Second

	// loginPatience replaces resolvePatience if a credential plugin may ask the user to log in.
	loginPatience = 2 * time.Minute
)

// ResolveAll resolves all types in a comma-separated list.
func (t Target) ResolveAll(ctx context.Context, types string, patience time.Duration, c *terminal.Console) (all []discovery.Mapping, err error) {
	for word := range strings.SplitSeq(types, ",") {
		arg, err := object.ParseResourceArg(word)
		if err != nil {
			return nil, exit.Usage("%w", err)
		}
		found, err := t.resolveWord(ctx, arg, patience, c)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if !slices.ContainsFunc(all, func(o discovery.Mapping) bool { return o.Resource == m.Resource }) {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// resolveWord resolves a type or a category.
func (t Target) resolveWord(ctx context.Context, arg object.GVR, patience time.Duration, c *terminal.Console) ([]discovery.Mapping, error) {
	m, err := t.Resolve(ctx, arg, patience, c)
	switch {
	case err == nil && !CanWatch(m):
		return nil, Unwatchable(m)
	case err == nil:
		return []discovery.Mapping{m}, nil
	}
	failed := t.Unavailable(RootCause(err), err)
	if _, unknown := errors.AsType[*discovery.NoMatchError](err); !unknown || arg.Group != "" || arg.Version != "" {
		return nil, failed
	}
	all, _ := t.Client.Mapper().Mappings(ctx) // missing groups are reported in failed
	all = slices.DeleteFunc(slices.Clone(all), func(m discovery.Mapping) bool {
		return !slices.Contains(m.Categories, arg.Resource) || !CanWatch(m)
	})
	if len(all) == 0 {
		return nil, failed
	}
	return all, nil
}

// Resolve resolves a type, retrying discovery until the server responds.
func (t Target) Resolve(ctx context.Context, arg object.GVR, patience time.Duration, c *terminal.Console) (discovery.Mapping, error) {
	silent := fmt.Errorf("no response within %s", patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, silent)
	defer cancel()
	ctx, stop := terminal.Late(ctx, c)
	defer stop()
	for try := 1; ; try++ {
		m, err := t.Client.Mapper().MappingForResource(ctx, arg)
		if err == nil || try == resolveTries || ctx.Err() != nil || !worthRetrying(err) {
			return m, err
		}
		c.Trouble(time.Now(), "%-12s  1s: %v", "connect", RootCause(err))
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return m, err
		}
	}
}

// worthRetrying reports whether failed discovery may succeed later.
func worthRetrying(err error) bool {
	_, noMatch := errors.AsType[*discovery.NoMatchError](err)
	_, ambiguous := errors.AsType[*discovery.AmbiguousError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	status, answered := errors.AsType[*apierrors.StatusError](err)
	refused := answered && status.ErrStatus.Code < 500 && status.ErrStatus.Code != 429
	return !noMatch && !ambiguous && !untrusted && !refused
}

// Patience returns how long to wait for discovery.
func Patience(cfg *config.Config) time.Duration {
	if cfg.Exec != nil {
		return loginPatience
	}
	return resolvePatience
}
