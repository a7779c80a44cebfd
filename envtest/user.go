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

// User is somebody who may do what the rules say, and what everybody may: discovery.
type User struct {
	Name   string
	Groups []string // "system:masters" may do everything
	Rules  []Rule
}

// Rule allows verbs on resources, in the manner of RBAC: "*" stands for all, "" among
// APIGroups for the core group.
type Rule struct {
	Namespace       string // empty: in all, and what is in none
	Verbs           []string
	APIGroups       []string // empty: the core group
	Resources       []string // "pods", "pods/status"
	ResourceNames   []string // empty: all
	NonResourceURLs []string // "/metrics"; without Namespace and Resources
}

// AddUser makes a user, and returns when the server knows of the rights. A user of that
// name who is there already has these rights instead, and the certificates of before
// remain good. A right that is taken away may last for a moment. Nobody can take a
// certificate back, so whoever is in a group stays in it.
func (s *Server) AddUser(ctx context.Context, u User) (*Credentials, error) {
	c, err := s.addUser(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("envtest: add user %q: %w", u.Name, err)
	}
	return c, nil
}

func (s *Server) addUser(ctx context.Context, u User) (*Credentials, error) {
	if u.Name == "" {
		return nil, errors.New("a user needs a name")
	}
	for _, r := range u.Rules {
		if len(r.Verbs) == 0 || len(r.Resources)+len(r.NonResourceURLs) == 0 {
			return nil, fmt.Errorf("the rule %+v allows nothing: it needs verbs, and resources or paths", r)
		}
	}
	if err := s.users.take(ctx); err != nil { // the files and rights of a user are one call's
		return nil, fmt.Errorf("wait for another call: %w", err)
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

// grant gives a user the rights, and returns when the server knows of them.
func (s *Server) grant(ctx context.Context, client *http.Client, u User) error {
	if err := s.withdraw(ctx, client, u); err != nil {
		return fmt.Errorf("take away the rights of before: %w", err)
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
			continue // who has a role
		}
		if err := s.awaitRole(ctx, client, u, o.text("metadata", "namespace"), mark); err != nil {
			return err
		}
	}
	return nil
}

// objects are the roles that have the rules, and who has the roles: one for each
// namespace, and one for all. Each role also allows to get a resource that has the mark in its
// name, and that nobody has: see awaitRole.
func (u User) objects(mark string) (all []object) {
	const group = "rbac.authorization.k8s.io"
	rules := map[string][]any{"": {}} // of a user whose rights are taken away there is none left
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

// withdraw removes the user's roles from the namespaces that no rule names any more.
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

// file is the name of the user's directory, whatever is in the user's name and however long
// that is.
func (u User) file() string {
	name := hex.EncodeToString([]byte(u.Name))
	if len(name) > 200 { // of 255 that systems allow
		sum := sha256.Sum256([]byte(u.Name))
		name = hex.EncodeToString(sum[:])
	}
	return name
}

// role is the name of the user's roles. Users' names may have what those of objects may
// not.
func (u User) role() string {
	if strings.ContainsAny(u.Name, "/%") {
		return fmt.Sprintf("envtest:%x", u.Name)
	}
	return "envtest:" + u.Name
}

// markGroup is the API group of the resources that mark roles.
const markGroup = "envtest"

// awaitRole returns when the server knows of the user's role in a namespace as it is now. The
// rights that the user has been given do not tell that: the user may have had them before.
func (s *Server) awaitRole(ctx context.Context, client *http.Client, u User, namespace, mark string) error {
	review := object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": object{
		"user": u.Name, "groups": u.Groups,
		"resourceAttributes": object{"namespace": namespace, "verb": "get", "group": markGroup, "resource": mark + namespace},
	}}
	return await(ctx, "the server knows of the rights", func(ctx context.Context) (bool, error) {
		var answer struct{ Status struct{ Allowed bool } }
		err := s.ask(ctx, client, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", review, &answer)
		return answer.Status.Allowed, err
	})
}
