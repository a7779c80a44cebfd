package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

const (
	nodes        = 20
	podsPerNode  = 110
	leasesIn     = "kube-node-lease"
	renewalPause = 10 * time.Second // as for kubelets
)

// Cluster represents the Nodes of a cluster.
type Cluster struct {
	client  *rest.Client
	pods    *controller.Client[*corev1.Pod]
	address atomic.Uint32 // IP assigned to the last Pod

	cancel context.CancelFunc
	all    sync.WaitGroup
	failed error // kubelet failure; to be read only once they have stopped
}

// New creates the Nodes and starts their kubelets.
func New(ctx context.Context, client *rest.Client) (*Cluster, error) {
	c := &Cluster{client: client}
	for n := range nodes {
		if err := c.join(ctx, fmt.Sprint("node-", n)); err != nil {
			return nil, err
		}
	}
	f := factory.New(client, factory.Options{})
	c.pods = controller.ClientFor[*corev1.Pod](f)
	kubelet, err := controller.New("kubelet", controller.Objects(c.pods, c.reconcile), controller.Options{Concurrency: 8})
	if err != nil {
		return nil, err
	}
	kubelet.Watch(controller.For(c.pods.Informer()))
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.Start(ctx)
	c.all.Go(func() { c.failed = kubelet.Run(ctx); f.Wait() })
	c.all.Go(func() { c.renew(ctx) })
	return c, nil
}

// Close stops the kubelets. It does not delete the Nodes.
func (c *Cluster) Close() error {
	c.cancel()
	c.all.Wait()
	return c.failed
}

// join creates a Node and its Lease.
func (c *Cluster) join(ctx context.Context, name string) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	now := metav1.Now()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
	if _, err := rest.ResourceFor[*corev1.Node](c.client).Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: leasesIn, Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: now.Time},
		},
	}
	_, err := rest.ResourceFor[*coordinationv1.Lease](c.client).Create(ctx, lease, metav1.CreateOptions{})
	return err
}

// renew renews the Leases until ctx is done. Failed renewals are retried the next time.
func (c *Cluster) renew(ctx context.Context) {
	leases := rest.ResourceFor[*coordinationv1.Lease](c.client)
	every := time.NewTicker(renewalPause)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NowMicro()}})
		if err != nil {
			panic(err) // constant structure
		}
		for n := range nodes {
			key := object.Key{Namespace: leasesIn, Name: fmt.Sprint("node-", n)}
			_, _ = leases.Patch(ctx, key, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
}

// reconcile does what a kubelet would do for a Pod.
func (c *Cluster) reconcile(ctx context.Context, p *corev1.Pod) (controller.Result, error) {
	switch {
	case p.Spec.NodeName == "":
		return controller.Result{}, nil
	case p.DeletionTimestamp != nil:
		err := rest.ResourceFor[*corev1.Pod](c.client).Delete(ctx, object.KeyOf(p), metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			err = nil // the Pod is gone, or a new Pod has the same name
		}
		return controller.Result{}, err
	case p.Status.Phase == corev1.PodPending:
		return controller.Result{}, c.report(ctx, p, corev1.PodRunning, corev1.ConditionTrue)
	case p.Status.Phase == corev1.PodRunning && p.Spec.RestartPolicy == corev1.RestartPolicyNever:
		return controller.Result{}, c.report(ctx, p, corev1.PodSucceeded, corev1.ConditionFalse)
	}
	return controller.Result{}, nil
}

// report writes a Pod's status.
func (c *Cluster) report(ctx context.Context, p *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus) error {
	_, err := controller.PatchStatus(ctx, c.pods, p, func(p *corev1.Pod) error {
		now := metav1.Now()
		s := &p.Status
		s.Phase = phase
		if s.StartTime == nil {
			n := c.address.Add(1)
			s.StartTime, s.HostIP = &now, "192.168.0.1"
			s.PodIP = fmt.Sprintf("172.16.%d.%d", n/250, n%250+1)
			s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
		}
		for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			status := ready
			if kind == corev1.PodInitialized {
				status = corev1.ConditionTrue
			}
			setCondition(s, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: now})
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func setCondition(s *corev1.PodStatus, want corev1.PodCondition) {
	for i := range s.Conditions {
		if s.Conditions[i].Type == want.Type {
			s.Conditions[i] = want
			return
		}
	}
	s.Conditions = append(s.Conditions, want)
}

// until keeps calling reached until it returns nil or patience has passed.
func until(ctx context.Context, reached func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("timed out after %v", patience))
	defer cancel()
	for {
		err := reached(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// patience is how long to wait for a condition.
const patience = 5 * time.Minute
