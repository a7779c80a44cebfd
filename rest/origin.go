package rest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
)

// origin implements source.Description.Origin. A subresource has none.
func (r *resource) origin() (source.Origin, bool) {
	if r.kindErr != nil || r.kind.Empty() || r.subresource != "" {
		return source.Origin{}, false
	}
	made := goType(r.codec.opts)
	if made == nil {
		return source.Origin{}, false
	}
	o := source.Origin{Kind: r.kind, Type: made, Server: r.client.address(), Keep: r.kept().String(), Cluster: r.client.Cluster}
	if r.namespace != "" {
		o.Scope = "namespace " + r.namespace
	}
	return o, true
}

// address identifies the server by its URL and a digest of its CA.
func (c *Client) address() string {
	address := *c.base
	address.User = nil
	authority := c.config.TLS.CAData
	if file := c.config.TLS.CAFile; file != "" {
		authority, _ = config.ReadFile(file) // if the file is unreadable, all requests fail anyway
	}
	if len(authority) == 0 {
		return address.String()
	}
	sum := sha256.Sum256(authority)
	return address.String() + " " + hex.EncodeToString(sum[:8])
}

// Cluster returns the UID of the kube-system namespace, which identifies the cluster. The result is
// empty if the caller may not read the namespace or it does not exist. Cluster caches a successful result.
// After a failure, the next call tries again, but first waits for as long as the server asked, or until ctx
// is done.
func (c *Client) Cluster(ctx context.Context) (string, error) {
	c.mu.Lock()
	known, refused := c.cluster, c.refused
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	if wait := time.Until(refused.until); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return "", fmt.Errorf("%w (%w)", refused.err, err)
		}
	}
	namespaces := ResourceForKind[*metav1.PartialObjectMetadata](c, object.GVK{Version: "v1", Kind: "Namespace"})
	system, err := namespaces.Get(ctx, object.Key{Name: metav1.NamespaceSystem}, metav1.GetOptions{})
	uid := ""
	switch {
	case err == nil:
		uid = string(system.GetUID())
	case !failure.Missing(err) && (!apierrors.IsForbidden(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)):
		if wait, asked := source.RetryAfter(err); asked {
			c.mu.Lock()
			c.refused = pause{err: err, until: time.Now().Add(wait)}
			c.mu.Unlock()
		}
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cluster = &uid
	return uid, nil
}

// pause records how long the server asked the client to wait.
type pause struct {
	err   error
	until time.Time
}
