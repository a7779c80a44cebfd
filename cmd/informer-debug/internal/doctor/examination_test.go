package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

func TestDoctorOfControllers(t *testing.T) {
	said := func(look func(x *examination)) string {
		x := examination{findings: &findings{}}
		look(&x)
		var b strings.Builder
		require.NoError(t, x.write(&b, ""))
		return b.String()
	}
	require.Equal(t, "problem  keeper: every worker is busy, and 1 keys wait: it has been reconciling shop/a for 1m30s; find out what it is waiting for; controller.Options.Timeout limits a reconcile\n"+
		"warning  keeper: shop/b has been waiting for a worker for 1m10s; find out what keeps its workers busy: informer-debug why shop/b\n"+
		"warning  keeper: failed on shop/d 7 times in a row; informer-debug why shop/d shows when it will retry\n",
		said(func(x *examination) {
			x.keys(&controller.Status{Name: "keeper", Concurrency: 1}, &debug.Keys{
				Queue:   workqueue.Status{Waiting: 1},
				Running: []debug.Key{{Key: "shop/a", For: 90 * time.Second}},
				Waiting: []debug.Key{{Key: "shop/b", For: 70 * time.Second, Requeues: 2}},
				Delayed: []debug.Key{{Key: "shop/c", Requeues: 3}, {Key: "shop/d", Requeues: 7}},
			})
		}))
	require.Equal(t, "warning  keeper: failed on node-1 3 times in a row; informer-debug why node-1 shows when it will retry\n", said(func(x *examination) {
		x.keys(&controller.Status{Name: "keeper", Concurrency: 1}, &debug.Keys{Delayed: []debug.Key{{Key: "node-1", Requeues: 3}}})
	}))
	require.Equal(t, "warning  keeper: every worker is busy, and 19 keys wait: it has been reconciling shop/a for 9.0s and shop/b for 6.0s, in main.wait (main.go:7); find out what it is waiting for; controller.Options.Timeout limits a reconcile\n", said(func(x *examination) {
		x.stacks = []debug.Stack{{Controller: "keeper", Frames: []string{"time.Sleep (sleep.go:1)", "main.wait (main.go:7)"}}, {Controller: "other", Frames: []string{"main.other (main.go:9)"}}}
		x.keys(&controller.Status{Name: "keeper", Concurrency: 2}, &debug.Keys{Queue: workqueue.Status{Waiting: 19}, Running: []debug.Key{{Key: "shop/a", For: 9 * time.Second}, {Key: "shop/b", For: 6 * time.Second}}})
	}))
	require.Empty(t, said(func(x *examination) {
		x.keys(&controller.Status{Name: "keeper", Concurrency: 3}, &debug.Keys{Queue: workqueue.Status{Waiting: 19}, Running: []debug.Key{{Key: "shop/a", For: 9 * time.Second}, {Key: "shop/b", For: 6 * time.Second}}})
	}), "a third worker is free")
	require.Empty(t, said(func(x *examination) {
		x.keys(&controller.Status{Name: "keeper", Concurrency: 1}, &debug.Keys{Running: []debug.Key{{For: time.Second}}, Waiting: []debug.Key{{For: time.Second}}})
	}))

	require.Equal(t, "warning  process shop: exposes no informers, controllers, queues or election; pass its components to debug.Options; a manager does so automatically\n",
		said(func(x *examination) { x.anything(&debug.Status{Process: debug.ProcessStatus{Program: "shop"}}) }))
	require.Empty(t, said(func(x *examination) { x.anything(&debug.Status{Informers: make([]debug.Informer, 1)}) }))

	require.Equal(t, "warning  keeper: failed on shop/d 7 times in a row, last with: no quota is left; informer-debug why shop/d shows when it will retry\n", said(func(x *examination) {
		failed := &controller.Failure{Request: controller.Request{Key: object.Key{Namespace: "shop", Name: "d"}}, Err: errors.New("no quota is left")}
		x.keys(&controller.Status{Name: "keeper", Failure: failed}, &debug.Keys{Delayed: []debug.Key{{Key: "shop/c", Requeues: 3}}, Parked: []debug.Key{{Key: "shop/d", Requeues: 7}}})
	}))
	require.Equal(t, "ok       keeper: 0 queued, 0 in progress, 2 parked until a cache has their writes\n", said(func(x *examination) {
		x.queues(&debug.Status{}, &debug.Status{Controllers: []controller.Status{{Name: "keeper", State: controller.Running, Parked: 2}}}, time.Second)
	}))
	refused := &debug.Informer{Status: sharedinformer.Status{Reflector: reflector.Status{Resource: "pods in namespace shop", Attempts: 2, Failure: &failure.Failure{
		Resource: "pods in namespace shop", Phase: failure.PhaseList, Err: errors.New(`pods is forbidden: User "system:serviceaccount:ops:keeper" cannot list resource "pods" in API group "" in the namespace "shop"`)}}}}
	require.Equal(t, "informer-debug doctor pods -n shop --as system:serviceaccount:ops:keeper prints a role that allows it", howToAllow(refused))
	refused.Reflector.Resource = "deployments.apps"
	require.Contains(t, said(func(x *examination) { x.informer(refused, "deployments.apps", time.Now()) }), "; informer-debug doctor deployments.apps -A --as system:serviceaccount:ops:keeper prints a role that allows it\n")
	refused.Reflector.Failure.Err = errors.New("no quota is left")
	require.Empty(t, howToAllow(refused))

	require.Equal(t, "pods -n shop", typeOf("pods in namespace shop with labels app=web", object.Key{Namespace: "shop", Name: "a"}))
	require.Equal(t, "deployments.apps -n bank", typeOf("deployments.apps", object.Key{Namespace: "bank", Name: "a"}))
	require.Equal(t, "nodes", typeOf("nodes", object.Key{Name: "a"}))

	require.Equal(t, "problem  pods: cannot sync until the source returns from pods in namespace shop, which was cancelled; its source, transform or hook must return when the context is done\n",
		said(func(x *examination) {
			x.informer(&debug.Informer{Status: sharedinformer.Status{Reflector: reflector.Status{Resource: "pods", State: reflector.Watching, RV: "7"}, Leaving: "pods in namespace shop, which was cancelled"}}, "pods", time.Now())
		}))

	quota := errors.New("no quota is left")
	waits := controller.Status{Name: "keeper", State: controller.Waiting, Sources: []controller.SourceStatus{{Name: "pods", Waiting: quota}}}
	follows := &leaderelection.Status{Identity: "a", Holder: "b", Lease: object.Key{Namespace: "ops", Name: "keeper"}}
	require.Equal(t, "problem  keeper: is Waiting; pods is not synced: no quota is left\n", said(func(x *examination) { x.stopped(&waits, nil) }))
	require.Equal(t, "problem  keeper: is Waiting; pods is not synced: no quota is left\n", said(func(x *examination) { x.stopped(&waits, follows) }), "it runs without the lease")
	idle := controller.Status{Name: "keeper", State: controller.Idle, Sources: waits.Sources}
	require.Equal(t, "ok       keeper: is Idle, because this replica is not the leader\n", said(func(x *examination) { x.stopped(&idle, follows) }))

	for want, e := range map[string]leaderelection.Status{
		"note     lease ops/keeper: b is the leader; this replica is on standby\n": *follows,
		"ok       lease ops/keeper: this replica is the leader\n":                  {Lease: follows.Lease, Leading: true, Holder: "a"},
		"warning  lease ops/keeper: no replica is the leader\n":                    {Lease: follows.Lease},
		"problem  lease ops/keeper: was lost while work is still running: ":        {Lease: follows.Lease, Lost: &leaderelection.Failure{Err: quota}},
		"problem  lease ops/keeper: cannot be read or renewed: ":                   {Lease: follows.Lease, Attempts: 2, Failure: &leaderelection.Failure{Err: quota}},
	} {
		require.True(t, strings.HasPrefix(said(func(x *examination) { x.election(&debug.Status{Election: &e}) }), want), want)
	}

	informer := func(relists uint64) *debug.Informer {
		return &debug.Informer{Status: sharedinformer.Status{Reflector: reflector.Status{Resource: "pods", Relists: relists}}}
	}
	now := time.Now()
	for want, status := range map[string]reflector.Status{
		"ok       pods: Watching, 0 objects, complete up to version 7\n": {Bookmarks: 3, Heard: now.Add(-110 * time.Second)},
		"warning  pods: its watch has received nothing for 2m10s, not even a bookmark: it may be dead, and the cache stale; 0 objects, complete up to version 7; informer-debug check --attach unix:/x": {Bookmarks: 3, Heard: now.Add(-130 * time.Second)},
		"warning  pods: its watch has received nothing for 2m10s, and never a bookmark: if the server sends none":                                                                                       {Heard: now.Add(-130 * time.Second)},
	} {
		status.Resource, status.State = "pods", reflector.Watching
		i := &debug.Informer{Status: sharedinformer.Status{Synced: true, RV: "7", Reflector: status}}
		require.Contains(t, said(func(x *examination) { x.to = "unix:/x"; x.informer(i, "pods", now) }), want)
	}
	require.Equal(t, "problem  pods: no changes arrive: the informer stopped 3s ago; unless the process is shutting down, keep alive the context given to its Run, or to its factory's Start; 0 objects, complete up to version 7\n", said(func(x *examination) {
		x.informer(&debug.Informer{Status: sharedinformer.Status{Synced: true, RV: "7", Reflector: reflector.Status{Resource: "pods", State: reflector.Stopped, Since: now.Add(-3 * time.Second)}}}, "pods", now)
	}))
	full := &debug.Informer{Status: sharedinformer.Status{Synced: true, QueueDepth: 9, QueueAge: 3 * time.Minute, Reflector: reflector.Status{
		Resource: "pods", State: reflector.Watching, Heard: now.Add(-3 * time.Minute)}}}
	require.NotContains(t, said(func(x *examination) { x.informer(full, "pods", now) }), "its watch", "the cache is to blame")
	before := &debug.Status{Informers: []debug.Informer{*informer(1)}}
	for relists, want := range map[uint64]string{2: "", 4: "3 times within 5s", 8: "7 times within 5s"} {
		require.Contains(t, said(func(x *examination) { x.relists(before, informer(relists), 5*time.Second, time.Hour) }), want)
	}
	before = &debug.Status{Informers: []debug.Informer{*informer(12)}}
	require.Contains(t, said(func(x *examination) { x.relists(before, informer(12), 5*time.Second, time.Hour) }), "all objects were listed again 12 times in 1h0m0s")
	require.Empty(t, said(func(x *examination) { x.relists(before, informer(12), 5*time.Second, 24*time.Hour) }))
}
