package millrace

import (
	"context"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// lateHandler adds a handler while events arrive.
func (k Stack) lateHandler(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewFeed(s)
	s.Until = feed.Until
	pauses := scenario.NewPauses(s.Params[scenario.Events])
	feed.Paced(s.Params[scenario.PerSecond], pauses.Sent)
	i := newLocal(k, feed)
	l := scenario.ListenerOf(s)
	i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{Update: func(_ context.Context, _, p *corev1.Pod) error {
		pauses.Hear(p)
		l.Hear(p)
		return nil
	}})
	stop, err := start(ctx, i)
	if err != nil {
		return nil, err
	}
	defer stop()
	err = scenario.Join(s, feed.Go, l, pauses, func() error {
		return i.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: func(context.Context, *corev1.Pod, bool) error { return nil }}).WaitForSync(ctx)
	})
	if err != nil {
		return nil, err
	}
	r := account(s, i, []*scenario.Listener{l})
	r.Metrics = pauses.Metrics()
	return r, nil
}

// slowHandler sends events while a coalescing handler sleeps.
func (k Stack) slowHandler(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewSmallFeed(s)
	s.Until = feed.Until
	i := newLocal(k, feed)
	listeners, _ := listen(s, i)
	sleeper := scenario.NewSleeper(feed.Until)
	i.AddHandlerWith(sharedinformer.HandlerFuncs[*metav1.PartialObjectMetadata]{
		Update: func(_ context.Context, _, o *metav1.PartialObjectMetadata) error { sleeper.Hear(o); return nil },
	}, sharedinformer.HandlerOptions{Name: "sleeper", Lag: sharedinformer.Coalesce})
	stop, err := start(ctx, i)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := scenario.Oversleep(s, feed.Go, listeners[0], sleeper); err != nil {
		return nil, err
	}
	r := account(s, i, listeners)
	r.Metrics = s.Metrics
	runtime.KeepAlive(feed)
	return r, nil
}
