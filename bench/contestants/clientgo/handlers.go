package clientgo

import (
	"context"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// lateHandler adds a handler while events arrive.
func (k Stack) lateHandler(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewFeed(s)
	s.Until = feed.Until
	pauses := scenario.NewPauses(s.Params[scenario.Events])
	feed.Paced(s.Params[scenario.PerSecond], pauses.Sent)
	i, err := newLocal(k, s, feed, podList)
	if err != nil {
		return nil, err
	}
	l := scenario.ListenerOf(s)
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, o any) {
		pauses.Hear(o.(metav1.Object))
		l.Hear(o.(metav1.Object))
	}})
	if err != nil {
		return nil, err
	}
	defer start(ctx, i)()
	err = scenario.Join(s, feed.Go, l, pauses, func() error {
		r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
		if err != nil {
			return err
		}
		<-r.HasSyncedChecker().Done()
		return nil
	})
	if err != nil {
		return nil, err
	}
	r, err := account(s, []*scenario.Listener{l}, i)
	if err != nil {
		return nil, err
	}
	r.Metrics = pauses.Metrics()
	return r, nil
}

// slowHandler sends events while a handler sleeps. client-go queues every one of them.
func (k Stack) slowHandler(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewSmallFeed(s)
	s.Until = feed.Until
	i, err := newLocal(k, s, feed, metadataList)
	if err != nil {
		return nil, err
	}
	listeners, _, err := listen(s, i)
	if err != nil {
		return nil, err
	}
	sleeper := scenario.NewSleeper(feed.Until)
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) { sleeper.Hear(o.(metav1.Object)) },
	})
	if err != nil {
		return nil, err
	}
	defer start(ctx, i)()
	if err := scenario.Oversleep(s, feed.Go, listeners[0], sleeper); err != nil {
		return nil, err
	}
	r, err := account(s, listeners, i)
	if err != nil {
		return nil, err
	}
	r.Metrics = s.Metrics
	runtime.KeepAlive(feed)
	return r, nil
}
