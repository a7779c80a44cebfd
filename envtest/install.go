package envtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is an object to install, in JSON form.
type object map[string]any

func (o object) text(fields ...string) string {
	at := map[string]any(o)
	for _, f := range fields[:len(fields)-1] {
		at, _ = at[f].(map[string]any)
	}
	text, _ := at[fields[len(fields)-1]].(string)
	return text
}

func (o object) String() string {
	return strings.TrimSpace(o.text("kind") + " " + o.text("metadata", "name"))
}

func (o object) isDefinition() bool {
	return o.text("kind") == "CustomResourceDefinition"
}

// InstallFiles installs the objects from YAML or JSON files, each of which may contain any number of
// documents. If a path is a directory, it installs the objects in all such files below it. An object may
// appear in several files as long as its content is the same. See [Server.Install].
func (s *Server) InstallFiles(ctx context.Context, paths ...string) error {
	var all []object
	places := map[string]placed{}
	for _, path := range paths {
		found, err := read(path)
		if err != nil {
			return fmt.Errorf("envtest: install %q: %w", path, err)
		}
		if len(found) == 0 {
			return fmt.Errorf("envtest: install %q: it contains no objects", path)
		}
		for _, p := range found {
			before, again := places[p.id()]
			switch {
			case !again:
				places[p.id()] = p
				all = append(all, p.object)
			case !reflect.DeepEqual(before.object, p.object):
				return fmt.Errorf("envtest: install %v: %s and %s define it differently: list the files to install instead of a directory with both", p.object, before.place, p.place)
			}
		}
	}
	return s.install(ctx, all)
}

// placed is an object along with its origin, which is a file and the object's index in it.
type placed struct {
	object
	place string
}

// id returns a key that is the same for every API version of the object.
func (o object) id() string {
	group, _, _ := strings.Cut(o.text("apiVersion"), "/")
	return strings.Join([]string{group, o.text("kind"), o.text("metadata", "namespace"), o.text("metadata", "name")}, "\x00")
}

// Install installs objects of any kind known to the server: unstructured objects, or Go values that marshal
// to JSON as objects, such as the types in k8s.io/apiextensions-apiserver. Existing objects are updated.
//
// Install creates custom resource definitions first, and other objects once their resources are served. If
// a webhook configuration or a definition's conversion refers to a Service, Install redirects it to the
// address of [Server.Webhook], since Services do not work in this cluster.
//
// The apiVersion and kind of v1 definitions and webhook configurations may be left empty.
func (s *Server) Install(ctx context.Context, objects ...any) error {
	var all []object
	for _, value := range objects {
		o, err := asObject(value)
		if err != nil {
			return fmt.Errorf("envtest: install a %T: %w", value, err)
		}
		all = append(all, o)
	}
	return s.install(ctx, all)
}

// install installs the definitions first and then the other objects, in the given order.
func (s *Server) install(ctx context.Context, all []object) error {
	if err := s.answers(ctx); err != nil {
		return fmt.Errorf("envtest: install objects: %w", err)
	}
	client := s.client()
	defer client.CloseIdleConnections()
	for _, o := range all {
		if err := s.redirect(o); err != nil {
			return fmt.Errorf("envtest: install %v: %w", o, err)
		}
	}
	for _, definitions := range []bool{true, false} {
		for _, o := range all {
			if o.isDefinition() != definitions {
				continue
			}
			if err := s.apply(ctx, client, o); err != nil {
				return fmt.Errorf("envtest: install %v: %w", o, err)
			}
		}
		for _, o := range all {
			if !definitions || !o.isDefinition() {
				continue
			}
			if err := s.awaitDefinition(ctx, client, o); err != nil {
				return fmt.Errorf("envtest: install %v: %w", o, err)
			}
		}
	}
	return nil
}

// apply creates or updates an object using server-side apply.
func (s *Server) apply(ctx context.Context, client *http.Client, o object) error {
	r, err := s.resource(ctx, client, o.text("apiVersion"), o.text("kind"))
	if err != nil {
		return err
	}
	path := r.path
	if r.Namespaced {
		path += "/namespaces/" + url.PathEscape(cmp.Or(o.text("metadata", "namespace"), "default"))
	}
	path += "/" + r.Name + "/" + url.PathEscape(o.text("metadata", "name")) + "?fieldManager=envtest&force=true"
	return s.ask(ctx, client, http.MethodPatch, path, "application/apply-patch+yaml", o, nil)
}

// resource describes the resource for a kind.
type resource struct {
	Name       string
	Kind       string
	Namespaced bool
	path       string // the group version's path
}

// resource looks up a resource.
func (s *Server) resource(ctx context.Context, client *http.Client, apiVersion, kind string) (resource, error) {
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	var list struct{ Resources []resource }
	err := s.ask(ctx, client, http.MethodGet, path, "", nil, &list)
	if r, ok := errors.AsType[*refusal](err); ok && r.code == http.StatusNotFound {
		return resource{}, fmt.Errorf("the server does not serve %s: install the definition of kind %s too, or use a version that it serves", apiVersion, kind)
	}
	if err != nil {
		return resource{}, fmt.Errorf("look up %s: %w", apiVersion, err)
	}
	for _, r := range list.Resources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			r.path = path
			return r, nil
		}
	}
	return resource{}, fmt.Errorf("the server does not serve kind %s in %s: install its definition too", kind, apiVersion)
}

// awaitDefinition returns once all versions of the custom resource are served.
func (s *Server) awaitDefinition(ctx context.Context, client *http.Client, o object) error {
	spec, _ := o["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		group := o.text("spec", "group") + "/" + object(version).text("name")
		plural := o.text("spec", "names", "plural")
		err := await(ctx, plural+" of "+group+" are served", func(ctx context.Context) (bool, error) {
			for _, path := range []string{"/apis/" + group, "/apis/" + group + "/" + plural + "?limit=1"} {
				var r *refusal
				if err := s.ask(ctx, client, http.MethodGet, path, "", nil, nil); errors.As(err, &r) && r.code == http.StatusNotFound {
					return false, s.refused(ctx, client, o)
				} else if err != nil {
					return false, err
				}
			}
			r, err := s.resource(ctx, client, group, o.text("spec", "names", "kind"))
			return err == nil && r.Name == plural, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// refused returns an error if a definition will never be served.
func (s *Server) refused(ctx context.Context, client *http.Client, o object) error {
	var is struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	path := "/apis/" + o.text("apiVersion") + "/customresourcedefinitions/" + url.PathEscape(o.text("metadata", "name"))
	if err := s.ask(ctx, client, http.MethodGet, path, "", nil, &is); err != nil {
		return err
	}
	for _, c := range is.Status.Conditions {
		if c.Type == "NamesAccepted" && c.Status == "False" {
			return errors.New(c.Message)
		}
	}
	return nil
}

// read returns the objects in a file, or in all files below a directory. The path may be a symbolic
// link.
func read(path string) (all []placed, err error) {
	if path == "" {
		return nil, errors.New("the path is empty: use \".\" for the working directory")
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(name) {
		case ".yaml", ".yml", ".json":
		default:
			if name != path {
				return nil
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found, err := documents(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for n, o := range found {
			all = append(all, placed{o, fmt.Sprintf("%s (object %d)", name, n+1)})
		}
		return nil
	})
	return all, err
}

// documents returns the objects in a YAML stream. Documents that are not objects, such as input files for
// kustomize generators, are an error.
func documents(text []byte) (all []object, err error) {
	for n, document := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		var o object
		if err := yaml.Unmarshal(document, &o, exactly); err != nil {
			return nil, fmt.Errorf("document %d: %w", n+1, err)
		}
		if o == nil {
			continue // only comments
		}
		if api := o.text("apiVersion"); o.text("kind") == "Kustomization" && (api == "" || strings.HasPrefix(api, "kustomize.config.k8s.io/")) {
			continue // a kustomization file next to the objects
		}
		for _, o := range o.items() {
			if o.text("apiVersion") == "" || o.text("kind") == "" || o.text("metadata", "name") == "" {
				return nil, fmt.Errorf("document %d: an object needs apiVersion, kind and metadata.name: specify files or directories that contain only objects, such as config/crd/bases", n+1)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// exactly decodes numbers without loss, since a float64 cannot represent every int64.
func exactly(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// items returns the objects in a kubectl-style List, or else the object itself.
func (o object) items() (all []object) {
	items, ok := o["items"].([]any)
	if o.text("kind") != "List" || !ok {
		return []object{o}
	}
	for _, item := range items {
		one, _ := item.(map[string]any)
		all = append(all, one)
	}
	return all
}

// known contains the Go types whose values may lack a kind, with their apiVersion.
var known = map[string]string{
	"CustomResourceDefinition":       "apiextensions.k8s.io/v1",
	"MutatingWebhookConfiguration":   "admissionregistration.k8s.io/v1",
	"ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}

// asObject converts a value to an object. It removes the status, which the server controls.
func asObject(value any) (object, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var o object
	if err := exactly(json.NewDecoder(bytes.NewReader(text))).Decode(&o); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if o == nil {
		return nil, errors.New("it is nil")
	}
	if o.text("kind") == "" {
		name := reflect.Indirect(reflect.ValueOf(value)).Type().Name()
		if known[name] == "" {
			return nil, errors.New("apiVersion or kind is missing: set both")
		}
		o["kind"], o["apiVersion"] = name, known[name]
	}
	if o.text("metadata", "name") == "" {
		return nil, errors.New("it has no name")
	}
	delete(o, "status")
	return o, nil
}
