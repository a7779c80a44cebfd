package lease

import (
	"context"
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// MaxRequests limits the number of concurrent writes to one Lease. More than a few occur only if a
// transport ignores its requests' contexts.
const MaxRequests = 8

// ErrDeaf means that a request is still running after its context was canceled.
var ErrDeaf = errors.New("no response; the client's transport ignores that the request's context is done")

// place is the mapping for Leases. It never changes, so no discovery is needed.
var place = discovery.Mapping{
	Kind:       coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	Resource:   coordinationv1.SchemeGroupVersion.WithResource("leases"),
	Namespaced: true,
	Verbs:      []string{"create", "delete", "get", "list", "update", "watch"},
}

// Client sends requests for the Leases in one namespace.
type Client struct {
	*rest.Resource[*coordinationv1.Lease]
	namespace string
}

// NewClient returns a client. It returns an error if client is nil or its scheme does not include Lease.
// With an empty namespace, the client can only list.
func NewClient(client *rest.Client, namespace string) (*Client, error) {
	if client == nil {
		return nil, errors.New("the client is nil")
	}
	if s := client.Scheme(); s == nil || !s.Recognizes(place.Kind) {
		return nil, errors.New("the client's scheme does not include Lease: register it with AddToScheme from k8s.io/api/coordination/v1")
	}
	return &Client{rest.ResourceForMapping[*coordinationv1.Lease](client, place).Namespace(namespace), namespace}, nil
}

// Guard calls do, which sends requests, and converts a panic in the client's transport to an error.
func Guard(do func() (*coordinationv1.Lease, error)) (now *coordinationv1.Lease, err error) {
	err = failure.Apart("the client's transport", func() (err error) {
		now, err = do()
		return err
	})
	return now, err
}

// Get reads a Lease.
func (c *Client) Get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	now, err := c.Resource.Get(ctx, object.Key{Name: name}, metav1.GetOptions{})
	if err == nil && (now.Name != name || now.Namespace != c.namespace || now.ResourceVersion == "") {
		err = errors.New("the response is not this Lease: a proxy may have responded in place of the API server")
	}
	return now, err
}

// Create creates a Lease.
func (c *Client) Create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now, err := c.Resource.Create(ctx, l, metav1.CreateOptions{})
	return written(l, now, err)
}

// Update writes l if the Lease has not changed since l was read.
func (c *Client) Update(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now, err := c.Resource.Update(ctx, l, metav1.UpdateOptions{})
	return written(l, now, err)
}

// written returns an error unless the response contains the Lease that was written.
func written(l, now *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil && (now.Name != l.Name || now.ResourceVersion == l.ResourceVersion || l.UID != "" && now.UID != l.UID || !SameTerm(now, l) || Token(now) != Token(l)) {
		err = errors.New("the response is not the Lease that was written: a proxy may have responded in place of the API server, or modified the Lease")
	}
	return now, err
}

// Change writes a modified copy of last. On a conflict, which may be just a change to the labels, it
// rereads the Lease and writes a modified copy of that. If ours returns an error for the reread Lease,
// Change writes nothing and returns the error together with the Lease.
func (c *Client) Change(ctx context.Context, last *coordinationv1.Lease, ours func(now *coordinationv1.Lease) error, change func(*coordinationv1.Lease)) (*coordinationv1.Lease, error) {
	put := func(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		next := l.DeepCopy()
		change(next)
		return c.Update(ctx, next)
	}
	now, err := put(last)
	if !apierrors.IsConflict(err) {
		return now, err
	}
	if now, err = c.Get(ctx, last.Name); err == nil {
		err = ours(now)
	}
	if err != nil {
		return now, err
	}
	return put(now)
}

// Delete deletes the Lease if it has not changed since l was read. It succeeds if the Lease does not
// exist.
func (c *Client) Delete(ctx context.Context, l *coordinationv1.Lease) error {
	err := c.Resource.Delete(ctx, object.Key{Name: l.Name}, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}})
	if failure.Missing(err) {
		return nil
	}
	return err
}
