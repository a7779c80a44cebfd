package soak

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/events"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// program is one replica: a manager that is restarted whenever it ends.
type program struct {
	*cluster
	called string
	link   *network.Link
	cancel context.CancelFunc
	ended  chan struct{}
	*manager.Manager
}

// start creates and runs a manager, and another one each time it has lost its lease.
func (p *program) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan struct{})
	next := p.manager()
	p.Manager = next
	go func() {
		defer close(p.ended)
		for {
			err := next.Run(ctx)
			next.Client().CloseIdleConnections()
			if ctx.Err() != nil {
				if err != nil {
					p.t.Errorf("%s ended with %v", p.called, err)
				}
				return
			}
			if !errors.Is(err, leaderelection.ErrLost) {
				p.t.Errorf("%s ended by itself with %v", p.called, err)
				return
			}
			next = p.manager()
			p.mu.Lock()
			p.Manager = next
			p.mu.Unlock()
		}
	}()
}

func (p *program) stop() {
	p.cancel()
	<-p.ended
}

// manager returns a new manager with all its parts.
func (p *program) manager() *manager.Manager {
	m, err := manager.New(&config.Config{
		Host: p.endpoint.URL, Dial: p.link.Dialer(p.endpoint.Connect), Logger: slog.New(slog.DiscardHandler),
	}, manager.Options{
		LeaderElection: &leaderelection.Options{Namespace: "default", Name: "soak", Identity: p.called},
		Logger:         slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	events := events.New(m.Client(), "copier", events.Options{})
	w := &work{
		cluster: p.cluster, events: events,
		pods:   controller.ClientFor[*corev1.Pod](m.Factory()),
		copies: controller.ClientFor[*corev1.ConfigMap](m.Factory()),
	}
	opts := m.ControllerOptions()
	opts.Concurrency, opts.Resync = 4, 10*time.Hour
	copier, err := controller.New("copier", controller.Func(w.reconcile), opts)
	if err != nil {
		panic(err)
	}
	copier.Watch(controller.For(w.pods.Informer()))
	copier.Watch(controller.Handle(w.copies.Informer(), func(_ context.Context, e sharedinformer.Event[*corev1.ConfigMap], in *controller.Inbox) error {
		in.Add(controller.Updated, object.KeyOf(e.Object), controller.RequestFor(e.Object))
		return nil
	}))
	timer, err := controller.New("timer", controller.Func(w.lookLater), m.ControllerOptions())
	if err != nil {
		panic(err)
	}
	timer.Watch(controller.For(w.pods.Informer()))
	for _, r := range []manager.Runnable{events, copier, timer, manager.RunnableFunc(p.term)} {
		if err := m.Add(r); err != nil {
			panic(err)
		}
	}
	return m
}

// term counts the terms of leaders.
func (p *program) term(ctx context.Context) error {
	p.terms.Add(1)
	p.leaders.Add(1)
	defer p.leaders.Add(-1)
	<-ctx.Done()
	return nil
}

// work is the controllers of one manager.
type work struct {
	*cluster
	events *events.Recorder
	pods   *controller.Client[*corev1.Pod]
	copies *controller.Client[*corev1.ConfigMap]
}

// reconcile updates one copy.
func (w *work) reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	n := w.reconciles.Add(1)
	pod, ok := w.pods.Get(req.Key)
	if !ok {
		return controller.Result{}, w.drop(ctx, req.Key)
	}
	if n%1000 == 0 {
		w.events.Recordf(pod, corev1.EventTypeWarning, "Tired", "Copying", "failed at reconcile %d", n)
		return controller.Result{}, errors.New("every thousandth fails")
	}
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	_, _, err := controller.CreateOrUpdate(ctx, w.copies, want, func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"content": pod.Labels["content"], "uid": string(pod.UID)}
		return nil
	})
	return controller.Result{}, err
}

func (w *work) drop(ctx context.Context, key object.Key) error {
	have, ok := w.copies.Get(key)
	if !ok {
		return nil
	}
	if err := w.copies.Delete(ctx, have); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// lookLater requeues existing objects with a delay, so that delayed adds would accumulate if they
// could.
func (w *work) lookLater(_ context.Context, req controller.Request) (controller.Result, error) {
	if _, ok := w.pods.Get(req.Key); !ok {
		return controller.Result{}, nil
	}
	return controller.Result{RequeueAfter: 6 * time.Hour}, nil
}
