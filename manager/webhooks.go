package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/webhook"
)

// WebhookBuilder makes the admission webhooks of a kind. Begin with [WebhookFor], end with Complete. Its
// methods change the builder and return it; mistakes are kept, and Complete returns them all, each with
// the file:line of the call. It is for one goroutine.
type WebhookBuilder[T object.Object] struct{ of *webhookBuilder }

// WebhookFor begins the admission webhooks of the kind that the manager's scheme has for T, at the paths
// that users of kubebuilder know, which are in webhook.ValidatePath and webhook.MutatePath:
//
//	err := manager.WebhookFor[*Site](m).Validate(validate).Default(setDefaults).Complete()
//
// The server is [Manager.WebhookServer]. Requests about other kinds are refused; see package webhook. If T
// is of several kinds, such as of two versions, each kind has its own paths. Name the kinds for
// *unstructured.Unstructured and *metav1.PartialObjectMetadata, or to choose among several.
func WebhookFor[T object.Object](m *Manager, kinds ...object.GVK) *WebhookBuilder[T] {
	return &WebhookBuilder[T]{beginWebhook(m, reflect.TypeFor[T](), kinds)}
}

// Validate lets check decide whether an object may be written: Request.Object is nil for a deletion,
// Request.OldObject for a creation. It is asked about the operations that the rules of the
// webhook configuration name. See webhook.Validate.
func (b *WebhookBuilder[T]) Validate(check func(context.Context, *webhook.Request[T]) error) *WebhookBuilder[T] {
	b.of.add("Validate", check == nil, webhook.ValidatePath, func(k object.GVK) http.Handler { return webhook.Validate(check, k) })
	return b
}

// Default lets set change Request.Object before it is written. It is not called for deletions. See
// webhook.Mutate.
func (b *WebhookBuilder[T]) Default(set func(context.Context, *webhook.Request[T]) error) *WebhookBuilder[T] {
	b.of.add("Default", set == nil, webhook.MutatePath, func(k object.GVK) http.Handler { return webhook.Mutate(set, k) })
	return b
}

// Complete serves the webhooks. It fails if there is no function, if a path is taken, and where
// [Manager.WebhookServer] fails; then it serves none of them.
func (b *WebhookBuilder[T]) Complete() error {
	if b == nil {
		return errZeroWebhook
	}
	return b.of.complete()
}

// errZeroWebhook: the builder has no manager.
var errZeroWebhook = errors.New("the zero WebhookBuilder builds no webhook: begin with manager.WebhookFor")

// webhookBuilder is a WebhookBuilder of any type.
type webhookBuilder struct {
	manager *Manager
	name    string // of the kind, or else of the type
	kinds   []object.GVK
	hooks   []hook
	errs    []error
}

// hook is one webhook of each kind.
type hook struct {
	place   string
	path    func(object.GVK) string
	handler func(object.GVK) http.Handler
}

// beginWebhook makes a builder. It is called by the function that the user calls.
func beginWebhook(m *Manager, t reflect.Type, named []object.GVK) *webhookBuilder {
	place := failure.Place(2)
	if m == nil {
		panic(place + ": the manager is nil")
	}
	b := &webhookBuilder{manager: m, name: t.String()}
	var err error
	if b.kinds, err = kindsOf(t, named, m.Scheme()); err != nil {
		b.errs = append(b.errs, fmt.Errorf("%s: %w", place, err))
		return b
	}
	b.name = b.kinds[0].Kind
	return b
}

// kindsOf returns the kinds of a webhook for objects of Go type t.
func kindsOf(t reflect.Type, named []object.GVK, known *runtime.Scheme) ([]object.GVK, error) {
	untyped := t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]()
	for _, kind := range named {
		if kind.Version == "" || kind.Kind == "" || slices.Contains([]string{kind.Group, kind.Version, kind.Kind}, "*") {
			return nil, fmt.Errorf("a path needs one version and one kind, and not %q: name each kind, or use webhook.Validate with Manager.WebhookServer", kind)
		}
	}
	switch {
	case t.Kind() != reflect.Pointer:
		return nil, fmt.Errorf("%v is not a pointer to an API type: use one, or *unstructured.Unstructured", t)
	case len(named) > 0:
		return slices.Clone(named), nil
	case untyped:
		return nil, fmt.Errorf("%v may be of any kind: name the kinds of the webhook, such as corev1.SchemeGroupVersion.WithKind(%q)", t, "Pod")
	}
	kinds, _, err := known.ObjectKinds(reflect.New(t.Elem()).Interface().(runtime.Object))
	if err != nil {
		return nil, fmt.Errorf("%v is not registered in the manager's scheme: add it with the AddToScheme of its package to the scheme in manager.Options.Scheme, or name its kind", t)
	}
	return kinds, nil
}

func (b *webhookBuilder) add(method string, missing bool, path func(object.GVK) string, handler func(object.GVK) http.Handler) {
	if b == nil {
		return // which Complete says
	}
	place := failure.Place(2)
	if missing {
		b.errs = append(b.errs, fmt.Errorf("%s: %s: the function is nil", place, method))
	}
	b.hooks = append(b.hooks, hook{place, path, handler})
}

func (b *webhookBuilder) complete() error {
	if b == nil {
		return errZeroWebhook
	}
	errs := b.errs
	if len(b.hooks) == 0 {
		errs = append(errs, errors.New("it has no function: call Validate or Default before Complete"))
	}
	server, err := b.manager.WebhookServer()
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = b.manager.webhooks.serve(server, b)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("webhook of %s: %w", b.name, err)
	}
	return nil
}

// webhooks is the server of a manager's webhooks.
type webhooks struct {
	mu     sync.Mutex // guards all below
	server *webhook.Server
	taken  map[string]string // by path: who has it
}

// WebhookServer returns the server of [WebhookFor], configured by Options.Webhooks. The first call makes it and adds it to
// the manager, which runs it. Use it for webhooks of other forms, such as conversions, and for the
// certificate that it makes (SelfSigned). It fails if Options.Webhooks lacks a certificate, and if the
// manager has stopped.
func (m *Manager) WebhookServer() (*webhook.Server, error) {
	w := &m.webhooks
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server != nil {
		return w.server, nil
	}
	opts, defaults := m.opts.Webhooks, m.WebhookOptions()
	if opts.Metrics == nil {
		opts.Metrics = defaults.Metrics
	}
	if opts.Logger == nil {
		opts.Logger = defaults.Logger
	}
	if opts.CertDir == "" && opts.TLS == nil {
		return nil, errors.New("the webhook server has no certificate: set CertDir of manager.Options.Webhooks to where the Secret is mounted, or TLS to &serving.TLS{} for an API server on this machine")
	}
	server, err := webhook.New(opts)
	if err != nil {
		return nil, err
	}
	if err := m.Add(server); err != nil {
		return nil, err
	}
	w.server, w.taken = server, make(map[string]string)
	return server, nil
}

// serve serves the webhooks of a builder, all or none.
func (w *webhooks) serve(server *webhook.Server, b *webhookBuilder) (errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	handlers := map[string]http.Handler{}
	places := map[string]string{}
	for _, h := range b.hooks {
		for _, kind := range b.kinds {
			path := h.path(kind)
			other, taken := w.taken[path]
			if !taken {
				other, taken = places[path]
			}
			if taken {
				errs = append(errs, fmt.Errorf("%s: %s is served by the webhook at %s: put both into one function", h.place, path, other))
				continue
			}
			places[path], handlers[path] = h.place, h.handler(kind)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	for path, handler := range handlers {
		server.Handle(path, handler)
		w.taken[path] = places[path]
	}
	return nil
}
