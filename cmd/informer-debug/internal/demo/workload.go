package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

const (
	nodeCount = 3
	fewPods   = 6  // the workload soon exceeds this number of pods
	manyPods  = 14 // the workload never exceeds this number of pods

	// leaseEvery is the number of steps between renewals of a node's lease.
	leaseEvery = 8
)

// MaxRate is the maximum workload, in changes per second.
const MaxRate = 10_000

// Workload simulates everything that writes in a cluster: it creates, schedules, starts, restarts and deletes
// pods, and renews the nodes' leases. It is not safe for concurrent use.
type Workload struct {
	srv   *apiservertest.Server
	rand  *rand.Rand
	pods  []*corev1.Pod // existing pods, as last written
	nodes []string
	steps int
}

// NewWorkload returns a workload with the given seed. The same seed creates the same objects.
func NewWorkload(srv *apiservertest.Server, seed uint64) *Workload {
	return &Workload{srv: srv, rand: rand.New(rand.NewPCG(seed, 0x776f726b))}
}

// Begin creates the nodes and the first pods, which are already running.
func (w *Workload) Begin() error {
	for n := range nodeCount {
		name := fmt.Sprintf("node-%d", n+1)
		w.nodes = append(w.nodes, name)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if _, err := w.srv.Create(node); err != nil {
			return err
		}
		if err := w.renew(name); err != nil {
			return err
		}
	}
	for range fewPods {
		if err := w.create(time.Duration(w.rand.IntN(48*60)) * time.Minute); err != nil {
			return err
		}
		pod := w.pods[len(w.pods)-1]
		w.schedule(pod)
		w.start(pod)
		if err := w.write(pod); err != nil {
			return err
		}
	}
	return nil
}

// Run makes rate changes to pods per second until ctx is done.
func (w *Workload) Run(ctx context.Context, rate float64) error {
	tick := time.NewTicker(max(time.Duration(float64(time.Second)/rate), 1))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := w.step(); err != nil {
			return err
		}
	}
}

// step changes one pod, and sometimes renews a lease.
func (w *Workload) step() error {
	if w.steps++; w.steps%leaseEvery == 0 {
		if err := w.renew(w.nodes[w.steps/leaseEvery%len(w.nodes)]); err != nil {
			return err
		}
	}
	if n := len(w.pods); n < fewPods || n < manyPods && w.rand.IntN(4) == 0 {
		return w.create(0)
	}
	// Pending pods take precedence, as in a real cluster.
	pod := w.pods[w.rand.IntN(len(w.pods))]
	if i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending }); i >= 0 {
		pod = w.pods[i]
	}
	switch {
	case pod.Spec.NodeName == "":
		w.schedule(pod)
	case pod.Status.Phase == corev1.PodPending:
		w.start(pod)
	case w.rand.IntN(3) == 0:
		w.restart(pod)
	default:
		return w.remove(pod)
	}
	return w.write(pod)
}

func (w *Workload) create(age time.Duration) error {
	apps := []struct{ namespace, app string }{{"shop", "web"}, {"shop", "cart"}, {"shop", "checkout"}, {"bank", "ledger"}, {"bank", "api"}}
	a := apps[w.rand.IntN(len(apps))]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.namespace, Name: a.app + "-" + w.suffix(), Labels: map[string]string{"app": a.app},
		CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
	}}
	pod.Spec.Containers = []corev1.Container{{Name: a.app, Image: "registry.example/" + a.app + ":1.4"}}
	pod.Status.Phase = corev1.PodPending
	stored, err := w.srv.Create(pod)
	if err != nil {
		return err
	}
	w.pods = append(w.pods, stored.(*corev1.Pod))
	return nil
}

// suffix returns a random suffix for a pod's name.
func (w *Workload) suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	name := make([]byte, 5)
	for i := range name {
		name[i] = letters[w.rand.IntN(len(letters))]
	}
	return string(name)
}

func (w *Workload) schedule(pod *corev1.Pod) {
	pod.Spec.NodeName = w.nodes[w.rand.IntN(len(w.nodes))]
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
}

func (w *Workload) start(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", w.rand.IntN(4), 1+w.rand.IntN(254))
	pod.Status.StartTime = new(metav1.Now())
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Ready: true}}
}

func (w *Workload) restart(pod *corev1.Pod) {
	pod.Status.ContainerStatuses[0].RestartCount++
}

// write stores a pod that was modified in place. It overwrites other clients' changes, and forgets pods that
// they have deleted.
func (w *Workload) write(pod *corev1.Pod) error {
	pod.ResourceVersion = ""
	_, err := w.srv.Update(pod)
	if apierrors.IsNotFound(err) {
		w.forget(pod)
		return nil
	}
	return err
}

func (w *Workload) remove(pod *corev1.Pod) error {
	w.forget(pod)
	err := w.srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.KeyOf(pod))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (w *Workload) forget(pod *corev1.Pod) {
	w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool { return p == pod })
}

// renew renews a node's lease.
func (w *Workload) renew(node string) error {
	_, err := w.srv.Put(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, RenewTime: new(metav1.NowMicro())},
	})
	return err
}
