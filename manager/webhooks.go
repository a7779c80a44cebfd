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

// WebhookBuilder configures the admission webhooks for a kind. Start with [WebhookFor] and finish with
// Complete. The methods modify and return the builder. Errors are collected and returned by Complete, each
// with the file:line of the call that caused it. A WebhookBuilder must not be used concurrently.
type WebhookBuilder[T object.Object] struct{ of *webhookBuilder }

// WebhookFor starts building the admission webhooks for T's kind in the manager's scheme. They are
// served at the same paths as in kubebuilder, webhook.ValidatePath and webhook.MutatePath:
//
//	err := manager.WebhookFor[*Site](m).Validate(validate).Default(setDefaults).Complete()
//
// The server is [Manager.WebhookServer]. It rejects requests for other kinds; see package webhook. If T has
// several kinds, for example in two versions, each kind gets its own paths; to serve only some of them,
// pass those kinds. For *unstructured.Unstructured and *metav1.PartialObjectMetadata, kinds are required.
func WebhookFor[T object.Object](m *Manager, kinds ...object.GVK) *WebhookBuilder[T] {
	return &WebhookBuilder[T]{beginWebhook(m, reflect.TypeFor[T](), kinds)}
}

// Validate calls check to decide whether an object may be written. Request.Object is nil for deletions,
// and Request.OldObject is nil for creations. The rules in the webhook configuration select the
// operations. See [webhook.Validate].
func (b *WebhookBuilder[T]) Validate(check func(context.Context, *webhook.Request[T]) error) *WebhookBuilder[T] {
	b.of.add("Validate", check == nil, webhook.ValidatePath, func(k object.GVK) http.Handler { return webhook.Validate(check, k) })
	return b
}

// Default calls set to modify Request.Object before it is written. It is not called for deletions. See
// [webhook.Mutate].
func (b *WebhookBuilder[T]) Default(set func(context.Context, *webhook.Request[T]) error) *WebhookBuilder[T] {
	b.of.add("Default", set == nil, webhook.MutatePath, func(k object.GVK) http.Handler { return webhook.Mutate(set, k) })
	return b
}

// Complete adds the webhooks to the server. It fails, adding none of them, if no function was set, if a
// path is taken, or if [Manager.WebhookServer] fails.
func (b *WebhookBuilder[T]) Complete() error {
	if b == nil {
		return errZeroWebhook
	}
	return b.of.complete()
}

// errZeroWebhook is the error for the zero WebhookBuilder.
var errZeroWebhook = errors.New("the zero WebhookBuilder cannot build a webhook: start with manager.WebhookFor")

// webhookBuilder is an untyped WebhookBuilder.
type webhookBuilder struct {
	manager *Manager
	name    string // the kind, or the type if the kind is unknown
	kinds   []object.GVK
	hooks   []hook
	errs    []error
}

// hook is a webhook that is served once per kind.
type hook struct {
	place   string
	path    func(object.GVK) string
	handler func(object.GVK) http.Handler
}

// beginWebhook creates a builder. Exported functions must call it directly, because it records their
// caller's line.
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

// kindsOf returns the kinds for a webhook on objects of Go type t.
func kindsOf(t reflect.Type, named []object.GVK, known *runtime.Scheme) ([]object.GVK, error) {
	untyped := t == reflect.TypeFor[*unstructured.Unstructured]() || t == reflect.TypeFor[*metav1.PartialObjectMetadata]()
	for _, kind := range named {
		if kind.Version == "" || kind.Kind == "" || slices.Contains([]string{kind.Group, kind.Version, kind.Kind}, "*") {
			return nil, fmt.Errorf("a path needs one version and one kind, not %q: list each kind, or use webhook.Validate with Manager.WebhookServer", kind)
		}
	}
	switch strange, of := otherType(t, named, known); {
	case of != nil && !untyped:
		return nil, fmt.Errorf("the Go type of %s is *%v, not %v: use that type, or pass another kind", strange, of, t)
	case t.Kind() != reflect.Pointer:
		return nil, fmt.Errorf("%v is not a pointer to an API type: use one, or *unstructured.Unstructured", t)
	case len(named) > 0:
		return slices.Clone(named), nil
	case untyped:
		return nil, fmt.Errorf("%v may be of any kind: pass the webhook's kinds, such as corev1.SchemeGroupVersion.WithKind(%q)", t, "Pod")
	}
	kinds, _, err := known.ObjectKinds(reflect.New(t.Elem()).Interface().(runtime.Object))
	if err != nil {
		return nil, fmt.Errorf("%v is not registered in the manager's scheme: register it in manager.Options.Scheme with its package's AddToScheme, or pass its kind", t)
	}
	return kinds, nil
}

// otherType returns the first kind whose Go type in the scheme is not t, and that type.
func otherType(t reflect.Type, named []object.GVK, known *runtime.Scheme) (object.GVK, reflect.Type) {
	for _, kind := range named {
		if of, is := known.AllKnownTypes()[kind]; is && reflect.PointerTo(of) != t {
			return kind, of
		}
	}
	return object.GVK{}, nil
}

func (b *webhookBuilder) add(method string, missing bool, path func(object.GVK) string, handler func(object.GVK) http.Handler) {
	if b == nil {
		return // Complete reports it
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

// webhooks holds the state of the manager's webhook server.
type webhooks struct {
	mu     sync.Mutex // guards the fields below
	server *webhook.Server
	taken  map[string]string // the file:line of the webhook at each path
}

// WebhookServer returns the server used by [WebhookFor], configured by Options.Webhooks. The first call
// creates it and adds it to the manager, which runs it. Use the server to add other webhooks, such as
// conversions, and to get the certificate it generates (SelfSigned). WebhookServer fails if
// Options.Webhooks lacks a certificate or the manager has stopped.
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
		return nil, errors.New("the webhook server has no certificate: set manager.Options.Webhooks.CertDir to where the Secret is mounted, or TLS to &serving.TLS{} for an API server on this machine")
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

// serve adds a builder's webhooks to the server. If a path is taken, it adds none of them.
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
			switch {
			case taken:
				errs = append(errs, fmt.Errorf("%s: %s is already served by the webhook at %s: put both in one function", h.place, path, other))
				continue
			case server.Handles(path):
				errs = append(errs, fmt.Errorf("%s: %s already has a handler, added with the webhook server's Handle: remove one of the two", h.place, path))
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
