package controllerruntime_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Greeting is a custom resource: a ConfigMap repeats the words of a Secret.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GreetingSpec   `json:"spec"`
	Status GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec is the desired state of a Greeting.
type GreetingSpec struct {
	Secret string `json:"secret"`
}

// GreetingStatus is the observed state.
type GreetingStatus struct {
	Said string `json:"said,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (g *Greeting) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// GreetingList is a list of them.
type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Greeting `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *GreetingList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Greeting, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Greeting)
	}
	return &c
}

var greetingVersion = schema.GroupVersion{Group: "adapters.example.com", Version: "v1"}

const (
	finalizer = "adapters.example.com/farewell"
	secretOf  = "spec.secret"
)

// greeter is a typical controller-runtime operator: with a field index, owned objects, a Secret
// that concerns several Greetings, a status and a finalizer.
type greeter struct{ client.Client }

// install adds the operator to a manager.
func install(m ctrl.Manager, opts controller.Options) error {
	g := &greeter{m.GetClient()}
	return g.install(m, opts, g)
}

// install adds the operator to a manager, with r as its reconciler.
func (g *greeter) install(m ctrl.Manager, opts controller.Options, r reconcile.Reconciler) error {
	err := m.GetFieldIndexer().IndexField(context.Background(), &Greeting{}, secretOf, func(o client.Object) []string {
		return []string{o.(*Greeting).Spec.Secret}
	})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(m).
		For(&Greeting{}).
		Owns(&corev1.ConfigMap{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(g.concerned)).
		WithOptions(opts).
		Complete(r)
}

// concerned returns requests for the Greetings that use a Secret.
func (g *greeter) concerned(ctx context.Context, secret client.Object) (requests []reconcile.Request) {
	var all GreetingList
	if err := g.List(ctx, &all, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretOf: secret.GetName()}); err != nil {
		panic(err)
	}
	for i := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}

// Reconcile implements reconcile.Reconciler.
func (g *greeter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var greeting Greeting
	if err := g.Get(ctx, req.NamespacedName, &greeting); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, g.leave(ctx, &greeting)
	}
	if controllerutil.AddFinalizer(&greeting, finalizer) {
		if err := g.Update(ctx, &greeting); err != nil {
			return reconcile.Result{}, err
		}
	}
	var secret corev1.Secret
	if err := g.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: greeting.Spec.Secret}, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{RequeueAfter: time.Hour}, nil // its Secret triggers it
		}
		return reconcile.Result{}, err
	}
	words := string(secret.Data["words"])
	said := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, g, said, func() error {
		said.Data = map[string]string{"words": words}
		return controllerutil.SetControllerReference(&greeting, said, g.Scheme())
	}); err != nil {
		return reconcile.Result{}, err
	}
	if greeting.Status.Said == words {
		return reconcile.Result{}, nil
	}
	greeting.Status.Said = words
	return reconcile.Result{}, g.Status().Update(ctx, &greeting)
}

// leave runs the finalizer: it leaves a note of the deleted Greeting.
func (g *greeter) leave(ctx context.Context, greeting *Greeting) error {
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: greeting.Namespace, Name: "farewell-" + greeting.Name}}
	note.Data = map[string]string{"last": greeting.Status.Said}
	if err := g.Create(ctx, note); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("note the farewell: %w", err)
	}
	if !controllerutil.RemoveFinalizer(greeting, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(g.Update(ctx, greeting))
}
