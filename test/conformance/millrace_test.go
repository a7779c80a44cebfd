package conformance_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/conformance"
	"github.com/millrace-dev/millrace/workqueue"
)

func TestConformance(t *testing.T) {
	conformance.Informers(t, func(s conformance.Server) conformance.Stack { return stack{s} })
}

// stack makes informers of package sharedinformer.
type stack struct{ server conformance.Server }

func (s stack) NewInformer(opts conformance.Options) (conformance.Informer, error) {
	client, err := rest.NewClient(&config.Config{Host: s.server.URL, Dial: s.server.Dial}, scheme.New())
	if err != nil {
		return nil, err
	}
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err
	}
	pods := rest.ResourceFor[*corev1.Pod](client)
	if opts.Namespace != "" {
		pods = pods.Namespace(opts.Namespace)
	}
	from := pods.Source()
	if opts.Transform != nil {
		from = reflector.Transformed(from, opts.Transform)
	}
	o := sharedinformer.Options{LabelSelector: selector}
	if opts.DetectMutations {
		o.DetectMutations = time.Minute
	}
	if opts.OnError != nil {
		o.OnError = func(_ context.Context, f *failure.Failure) failure.Verdict {
			opts.OnError(f)
			return failure.Retry
		}
	}
	i := &informer{Informer: sharedinformer.New[*corev1.Pod](from, o), client: client}
	if opts.Index != nil {
		i.index = sharedinformer.AddIndex(i.Informer, "case", opts.Index)
	}
	return i, nil
}

func (s stack) Detects() {}

func (s stack) NewFactory() (conformance.Factory, error) {
	client, err := rest.NewClient(&config.Config{Host: s.server.URL, Dial: s.server.Dial}, scheme.New())
	if err != nil {
		return nil, err
	}
	return &informers{factory.New(client, factory.Options{}), client}, nil
}

// informers is a factory.
type informers struct {
	*factory.Factory
	client *rest.Client
}

func (f *informers) Informer() (conformance.Informer, error) {
	return &informer{Informer: factory.Informer[*corev1.Pod](f.Factory), client: f.client}, nil
}

func (f *informers) Borrow() (conformance.Informer, func()) {
	i, giveBack := factory.Borrow(f.Factory, factory.For[*corev1.Pod]{})
	return &informer{Informer: i, client: f.client}, func() { giveBack() }
}

func (f *informers) Wait() {
	f.Factory.Wait()
	f.client.CloseIdleConnections()
}

func (s stack) NewQueue(first time.Duration) conformance.Queue {
	return queue{workqueue.New(workqueue.Options[string]{
		RateLimiter: workqueue.NewExponential[string](workqueue.ExponentialOptions{Base: first}),
	})}
}

// queue is a work queue.
type queue struct{ *workqueue.Queue[string] }

func (q queue) Get() (string, bool) {
	key, err := q.Queue.Get(context.Background())
	return key, err == nil
}

func (q queue) Drain() { _ = q.Queue.Drain(context.Background()) }

func (q queue) ForgetAndCancel(key string) { q.Queue.ForgetAndCancel(key) }

func (q queue) AddWithPriority(key string, priority int) {
	q.AddWith(workqueue.AddOptions{Priority: priority}, key)
}

// informer implements all optional interfaces.
type informer struct {
	*sharedinformer.Informer[*corev1.Pod]
	client *rest.Client
	index  *indexer.Index[*corev1.Pod, string]
}

func (i *informer) Run(ctx context.Context) error {
	defer i.client.CloseIdleConnections()
	return i.Informer.Run(ctx)
}

func (i *informer) Get(key types.NamespacedName) (*corev1.Pod, bool) { return i.Cache().Get(key) }

func (i *informer) List() (all []*corev1.Pod) {
	for o := range i.Cache().All() {
		all = append(all, o)
	}
	return all
}

func (i *informer) ByIndex(value string) (all []*corev1.Pod, err error) {
	for o := range i.index.Get(value) {
		all = append(all, o)
	}
	return all, nil
}

func (i *informer) Version() string { return i.Cache().RV() }

func (i *informer) WaitForVersion(ctx context.Context, version string) error {
	return i.WaitForRV(ctx, version)
}

func (i *informer) Coalesces() {}

func (i *informer) Restarts() {}

func (i *informer) AddHandler(h conformance.Handler) (conformance.Registration, error) {
	opts := sharedinformer.HandlerOptions{Resync: h.Every}
	if h.Coalesce {
		opts.Lag = sharedinformer.Coalesce
	}
	r := i.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
		switch e.Type {
		case sharedinformer.Add:
			h.Add(e.Object, e.Initial)
		case sharedinformer.Update:
			h.Update(e.Old, e.Object)
		case sharedinformer.Delete:
			h.Delete(e.Object, e.FinalStateUnknown)
		case sharedinformer.Resync:
			h.Resync(e.Object)
		}
		return nil
	}), opts)
	return registration{r}, nil
}

// registration is what AddHandler returns.
type registration struct {
	*sharedinformer.Registration
}

func (r registration) Remove() error { r.Close(); return nil }

func (r registration) RemoveAndWait(ctx context.Context) error { return r.CloseAndWait(ctx) }

func (r registration) Pending() int { return r.Status().Pending }
