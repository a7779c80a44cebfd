package envtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
)

// User has the rights granted by Rules, plus discovery, which is open to all users.
type User struct {
	Name   string
	Groups []string // "system:masters" has all rights
	Rules  []Rule
}

// Rule permits verbs on resources, as in RBAC: "*" means all, and "" in APIGroups means
// the core group.
type Rule struct {
	Namespace       string // empty: all namespaces and cluster-scoped resources
	Verbs           []string
	APIGroups       []string // empty: the core group
	Resources       []string // "pods", "pods/status"
	ResourceNames   []string // empty: all
	NonResourceURLs []string // "/metrics"; excludes Namespace and Resources
}

// AddUser creates a user and returns once the user's rights are in effect. If the user exists, its rights
// are replaced, but earlier certificates remain valid. A revoked right may remain in effect for a moment.
// Since certificates cannot be revoked, a user remains in the groups named in earlier certificates.
func (s *Server) AddUser(ctx context.Context, u User) (*Credentials, error) {
	c, err := s.addUser(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("envtest: add user %q: %w", u.Name, err)
	}
	return c, nil
}

func (s *Server) addUser(ctx context.Context, u User) (*Credentials, error) {
	if u.Name == "" {
		return nil, errors.New("User.Name must be set")
	}
	for _, r := range u.Rules {
		if len(r.Verbs) == 0 || len(r.Resources)+len(r.NonResourceURLs) == 0 {
			return nil, fmt.Errorf("the rule %+v allows nothing: set Verbs, and Resources or NonResourceURLs", r)
		}
	}
	if err := s.users.take(ctx); err != nil { // one call at a time, since several calls may be for the same user
		return nil, fmt.Errorf("wait for another call to AddUser: %w", err)
	}
	defer s.users.leave()
	if err := s.answers(ctx); err != nil {
		return nil, err
	}
	c, err := s.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: u.Name, Organization: u.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	if err := s.write(c, filepath.Join(s.dir, "users", u.file()), u.Name); err != nil {
		return nil, err
	}
	client := s.client()
	defer client.CloseIdleConnections()
	if err := s.grant(ctx, client, u); err != nil {
		return nil, err
	}
	return c, nil
}

// grant grants a user its rights and returns once they are in effect.
func (s *Server) grant(ctx context.Context, client *http.Client, u User) error {
	if err := s.withdraw(ctx, client, u); err != nil {
		return fmt.Errorf("revoke earlier rights: %w", err)
	}
	mark := strings.ToLower(rand.Text())
	all := u.objects(mark)
	for _, o := range all {
		if err := s.apply(ctx, client, o); err != nil {
			return fmt.Errorf("%v: %w", o, err)
		}
	}
	for _, o := range all {
		if o["rules"] == nil {
			continue // a binding
		}
		if err := s.awaitRole(ctx, client, u, o.text("metadata", "namespace"), mark); err != nil {
			return err
		}
	}
	return nil
}

// objects returns the roles with the rules, one per namespace and one for the cluster, and their bindings.
// Each role also permits getting a nonexistent resource whose name contains mark; see awaitRole.
func (u User) objects(mark string) (all []object) {
	const group = "rbac.authorization.k8s.io"
	rules := map[string][]any{"": {}} // created even if there are no rules, to revoke earlier rights
	for _, r := range u.Rules {
		groups := r.APIGroups
		if len(groups) == 0 && len(r.Resources) > 0 {
			groups = []string{""}
		}
		rule := object{"verbs": r.Verbs}
		for name, list := range map[string][]string{
			"apiGroups": groups, "resources": r.Resources, "resourceNames": r.ResourceNames, "nonResourceURLs": r.NonResourceURLs,
		} {
			if len(list) > 0 {
				rule[name] = list
			}
		}
		rules[r.Namespace] = append(rules[r.Namespace], rule)
	}
	for namespace, list := range rules {
		kind := "Role"
		if namespace == "" {
			kind = "ClusterRole"
		}
		list = append(list, object{"verbs": []string{"get"}, "apiGroups": []string{markGroup}, "resources": []string{mark + namespace}})
		meta := map[string]any{"name": u.role(), "namespace": namespace}
		all = append(all,
			object{"apiVersion": group + "/v1", "kind": kind, "metadata": meta, "rules": list},
			object{"apiVersion": group + "/v1", "kind": kind + "Binding", "metadata": meta,
				"roleRef":  object{"apiGroup": group, "kind": kind, "name": u.role()},
				"subjects": []any{object{"apiGroup": group, "kind": "User", "name": u.Name}}})
	}
	return all
}

// withdraw deletes the user's roles in namespaces that are no longer mentioned in any rule.
func (s *Server) withdraw(ctx context.Context, client *http.Client, u User) error {
	const api = "/apis/rbac.authorization.k8s.io/v1"
	keeps := map[string]bool{}
	for _, r := range u.Rules {
		keeps[r.Namespace] = true
	}
	for _, resource := range []string{"rolebindings", "roles"} {
		var list struct {
			Items []struct {
				Metadata struct{ Name, Namespace string }
			}
		}
		if err := s.ask(ctx, client, http.MethodGet, api+"/"+resource, "", nil, &list); err != nil {
			return err
		}
		for _, o := range list.Items {
			if o.Metadata.Name != u.role() || keeps[o.Metadata.Namespace] {
				continue
			}
			path := fmt.Sprintf("%s/namespaces/%s/%s/%s", api, o.Metadata.Namespace, resource, url.PathEscape(u.role()))
			var r *refusal
			if err := s.ask(ctx, client, http.MethodDelete, path, "", nil, nil); err != nil && !(errors.As(err, &r) && r.code == http.StatusNotFound) {
				return err
			}
		}
	}
	return nil
}

// file returns the name of the user's directory. User names may be of any length and contain any
// characters.
func (u User) file() string {
	name := hex.EncodeToString([]byte(u.Name))
	if len(name) > 200 { // systems allow 255
		sum := sha256.Sum256([]byte(u.Name))
		name = hex.EncodeToString(sum[:])
	}
	return name
}

// role returns the name of the user's roles. User names may contain characters that are not allowed in role
// names.
func (u User) role() string {
	if strings.ContainsAny(u.Name, "/%") {
		return fmt.Sprintf("envtest:%x", u.Name)
	}
	return "envtest:" + u.Name
}

// markGroup is the API group of the nonexistent resources that mark roles.
const markGroup = "envtest"

// awaitRole returns once the server uses the current version of the user's role in a namespace. Checking
// for the rights themselves would not prove this, since the user may have had them before.
func (s *Server) awaitRole(ctx context.Context, client *http.Client, u User, namespace, mark string) error {
	review := object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": object{
		"user": u.Name, "groups": u.Groups,
		"resourceAttributes": object{"namespace": namespace, "verb": "get", "group": markGroup, "resource": mark + namespace},
	}}
	return await(ctx, "the rights are in effect", func(ctx context.Context) (bool, error) {
		var answer struct{ Status struct{ Allowed bool } }
		err := s.ask(ctx, client, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", review, &answer)
		return answer.Status.Allowed, err
	})
}
