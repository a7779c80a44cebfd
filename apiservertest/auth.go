package apiservertest

import (
	"cmp"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/fields"
)

// Attributes are the inputs to an authorization decision.
type Attributes struct {
	User        string
	Verb        string // as in RBAC: get, list, watch, create, update, patch, delete, deletecollection
	Group       string
	Resource    string // empty if the request is not about a resource
	Subresource string
	Namespace   string // empty for cluster-wide requests
	Name        string // name of the object; for a list or watch, NAME from the field selector metadata.name=NAME
	Path        string
}

// Authorizer decides whether a request is allowed. It must be safe for concurrent use.
// A denied request gets a 403 with the same message as from a real server.
type Authorizer func(Attributes) bool

// Deny returns an Authorizer that denies a user the given verbs on a resource and allows everything
// else. An empty user stands for all users, and an empty list of verbs for all verbs.
func Deny(user, resource string, verbs ...string) Authorizer {
	return func(a Attributes) bool {
		if a.Resource != resource || user != "" && a.User != user {
			return true
		}
		for _, verb := range verbs {
			if a.Verb == verb {
				return false
			}
		}
		return len(verbs) > 0
	}
}

// admit authenticates and authorizes the request.
func (c *call) admit() error {
	if err := c.authenticate(); err != nil {
		return err
	}
	c.server.mu.Lock()
	authorize := c.server.authorize
	c.server.mu.Unlock()
	attributes := Attributes{
		User: c.user, Verb: c.verb, Group: c.group, Resource: c.resource, Subresource: c.subresource,
		Namespace: c.namespace, Name: cmp.Or(c.name, c.selectedName()), Path: c.r.URL.Path,
	}
	if authorize == nil || authorize(attributes) {
		return nil
	}
	return forbidden(attributes, c)
}

// selectedName returns the name of the only object that a field selector can match, or "". A real server
// does the same for Roles with resourceNames.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
func (c *call) selectedName() string {
	switch c.verb {
	case "list", "watch", "deletecollection":
	default:
		return ""
	}
	selector, err := fields.ParseSelector(c.r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	if len(path.IsValidPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

func (c *call) authenticate() error {
	c.user = "admin"
	if tokens := c.server.opts.Tokens; tokens != nil {
		c.user = "system:anonymous"
		if header := c.r.Header.Get("Authorization"); header != "" {
			token, _ := strings.CutPrefix(header, "Bearer ")
			user, known := tokens[token]
			if !known {
				return apierrors.NewUnauthorized("Unauthorized")
			}
			c.user = user
		}
	}
	if as := c.r.Header.Get("Impersonate-User"); as != "" {
		c.user = as
	}
	return nil
}

func forbidden(a Attributes, c *call) error {
	if a.Resource == "" {
		return apierrors.NewForbidden(c.gvr().GroupResource(), "",
			//lint:ignore ST1005 the words of the real server
			fmt.Errorf("User %q cannot %s path %q", a.User, a.Verb, a.Path))
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return apierrors.NewForbidden(c.gvr().GroupResource(), a.Name,
		//lint:ignore ST1005 the words of the real server
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s", a.User, a.Verb, resource, a.Group, where))
}
