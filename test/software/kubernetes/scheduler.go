package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
)

// scheduler is kube-scheduler.
type scheduler struct {
	*kubescheduler.Scheduler
	informers *factories
	events    events.EventBroadcasterAdapter
}

// newScheduler creates a scheduler with the default profile.
func newScheduler(ctx context.Context, cfg *clientrest.Config, choose func(settings) (*factories, error)) (*scheduler, error) {
	cfg = clientrest.AddUserAgent(clientrest.CopyConfig(cfg), "scheduler")
	f, err := choose(settings{config: cfg, schedule: true})
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	s := &scheduler{informers: f, events: events.NewEventBroadcasterAdapterWithContext(ctx, client)}
	s.Scheduler, err = kubescheduler.New(ctx, client, f.typed, f.dynamic, s.events.NewRecorder, kubescheduler.WithKubeConfig(cfg))
	return s, err
}

// run schedules Pods until ctx is done.
func (s *scheduler) run(ctx context.Context) error {
	s.events.StartRecordingToSink(ctx.Done())
	defer s.events.Shutdown()
	s.informers.typed.Start(ctx.Done())
	defer s.informers.typed.Shutdown()
	s.informers.dynamic.Start(ctx.Done())
	defer s.informers.dynamic.Shutdown()
	for kind, synced := range s.informers.typed.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %v has not synced", kind)
		}
	}
	for resource, synced := range s.informers.dynamic.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %v has not synced", resource)
		}
	}
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return errors.Join(errors.New("the scheduler's handlers have not heard of everything"), err)
	}
	s.Run(ctx)
	return nil
}
