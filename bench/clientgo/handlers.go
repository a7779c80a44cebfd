package main

import (
	"context"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/bench/protocol"
)

// lateHandler lets a handler join while events come.
func lateHandler(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := protocol.NewFeed(s)
	s.Until = feed.Until
	pauses := protocol.NewPauses(s.Params[protocol.Events])
	feed.Paced(s.Params[protocol.PerSecond], pauses.Sent)
	i, err := newLocal(s, feed, podList)
	if err != nil {
		return nil, err
	}
	l := s.Listener()
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, o any) {
		pauses.Hear(o.(metav1.Object))
		l.Hear(o.(metav1.Object))
	}})
	if err != nil {
		return nil, err
	}
	defer start(ctx, i)()
	err = protocol.Join(s, feed.Go, l, pauses, func() error {
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
	r, err := account(s, i, []*protocol.Listener{l})
	if err != nil {
		return nil, err
	}
	r.Metrics = pauses.Metrics()
	return r, nil
}

// slowHandler lets events come while a handler sleeps. client-go holds all of
// them for it: there is no other way.
func slowHandler(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := protocol.NewSmallFeed(s)
	s.Until = feed.Until
	i, err := newLocal(s, feed, metadataList)
	if err != nil {
		return nil, err
	}
	listeners, _, err := listen(s, i)
	if err != nil {
		return nil, err
	}
	sleeper := protocol.NewSleeper(feed.Until)
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) { sleeper.Hear(o.(metav1.Object)) },
	})
	if err != nil {
		return nil, err
	}
	defer start(ctx, i)()
	if err := protocol.Oversleep(s, feed.Go, listeners[0], sleeper); err != nil {
		return nil, err
	}
	r, err := account(s, i, listeners)
	if err != nil {
		return nil, err
	}
	r.Metrics = s.Metrics
	runtime.KeepAlive(feed)
	return r, nil
}
