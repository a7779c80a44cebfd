package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Workload keeps a server busy the way a small cluster does: pods of a few
// applications are created, scheduled, started, restarted and deleted, and
// now and then something goes wrong. Set the fields, then call Run once.
type Workload struct {
	Server *Server

	Seed  uint64
	Pods  int     // how many pods there are after the first seconds; 30 if zero
	Nodes int     // 3 if zero
	Rate  float64 // changes a second, on average; 5 if zero

	// FaultEvery is the average time between two faults; none if zero.
	FaultEvery time.Duration

	// OnFault is told of each fault as it happens, if set.
	OnFault func(what string)

	// Logger is told of changes that the server refused; nil is silent.
	Logger *slog.Logger

	rand *rand.Rand
	keys []object.Key
}

// apps are the applications whose pods come and go.
var apps = [...]struct{ namespace, name, hash, image string }{
	{"shop", "frontend", "7d4b9c8f6d", "shop/frontend:1.14.2"},
	{"shop", "cart", "5f6c7b8d9c", "shop/cart:0.9.7"},
	{"shop", "checkout", "6b8f9d7c5b", "shop/checkout:2.3.0"},
	{"data", "ingest", "74c8d5f9b7", "data/ingest:3.1.1"},
	{"data", "report", "58d7c9f6b4", "data/report:1.0.5"},
	{"kube-system", "coredns", "668d6bf9bc", "coredns/coredns:1.12.0"},
}

// Run creates the nodes and then changes pods until ctx ends. It starts no
// goroutine. The error is that of a server which cannot store pods or nodes
// at all.
func (w *Workload) Run(ctx context.Context) error {
	w.Pods = cmp.Or(w.Pods, 30)
	w.Nodes = cmp.Or(w.Nodes, 3)
	w.Rate = cmp.Or(w.Rate, 5)
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	w.rand = rand.New(rand.NewPCG(w.Seed, 0x776f726b))
	if err := w.createNodes(); err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	change := time.NewTimer(0)
	defer change.Stop()
	fault := time.NewTimer(w.untilFault())
	defer fault.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-change.C:
			if err := w.step(); err != nil {
				w.Logger.Warn("workload: change refused", "error", err)
			}
			change.Reset(w.around(time.Duration(float64(time.Second) / w.Rate)))
		case <-fault.C:
			if w.FaultEvery > 0 {
				w.fault()
			}
			fault.Reset(w.untilFault())
		}
	}
}

// around gives a duration between half and one and a half of d.
func (w *Workload) around(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.5 + w.rand.Float64()))
}

func (w *Workload) untilFault() time.Duration {
	if w.FaultEvery <= 0 {
		return time.Hour // comes to nothing
	}
	return w.around(w.FaultEvery)
}

func (w *Workload) createNodes() error {
	for i := range w.Nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   nodeName(i),
			Labels: map[string]string{corev1.LabelHostname: nodeName(i), corev1.LabelTopologyZone: string(rune('a' + i%3))},
		}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if _, err := w.Server.Put(node); err != nil {
			return err
		}
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// step makes one change: a new pod while there are too few, otherwise the
// next thing that happens to a pod taken at random.
func (w *Workload) step() error {
	if len(w.keys) < w.Pods {
		return w.createPod()
	}
	at := w.rand.IntN(len(w.keys))
	stored, err := w.Server.Get(corev1.SchemeGroupVersion.WithResource("pods"), w.keys[at])
	if err != nil {
		w.drop(at) // somebody else has deleted it
		return nil
	}
	pod := stored.(*corev1.Pod)
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodFailed, w.rand.Float64() < 0.1:
		key := w.keys[at]
		w.drop(at)
		return w.Server.Delete(corev1.SchemeGroupVersion.WithResource("pods"), key)
	case pod.Spec.NodeName == "":
		pod.Spec.NodeName = nodeName(w.rand.IntN(w.Nodes))
		setCondition(pod, corev1.PodScheduled)
	case pod.Status.Phase == corev1.PodPending:
		w.run(pod)
	case w.rand.Float64() < 0.1:
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Reason = "Evicted"
	default:
		pod.Status.ContainerStatuses[0].RestartCount++
	}
	_, err = w.Server.Update(pod)
	return err
}

// drop forgets a key.
func (w *Workload) drop(at int) {
	last := len(w.keys) - 1
	w.keys[at] = w.keys[last]
	w.keys = w.keys[:last]
}

func (w *Workload) createPod() error {
	app := apps[w.rand.IntN(len(apps))]
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = nameAlphabet[w.rand.IntN(len(nameAlphabet))]
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.namespace,
			Name:      fmt.Sprintf("%s-%s-%s", app.name, app.hash, suffix),
			Labels:    map[string]string{"app": app.name, "pod-template-hash": app.hash},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app.name + "-" + app.hash,
				UID: types.UID("00000000-0000-4000-8000-" + app.hash + "00"),
			}},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: app.name,
			Containers: []corev1.Container{{
				Name: app.name, Image: app.image,
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			}},
		},
	}
	if _, err := w.Server.Create(pod); err != nil {
		return err
	}
	w.keys = append(w.keys, object.KeyOf(pod))
	return nil
}

// run brings a scheduled pod up.
func (w *Workload) run(pod *corev1.Pod) {
	now := metav1.Time{Time: time.Now().Truncate(time.Second)}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.StartTime = &now
	pod.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", 1+w.rand.IntN(200), w.rand.IntN(250), 1+w.rand.IntN(250))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	setCondition(pod, corev1.PodReady)
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Time{Time: time.Now().Truncate(time.Second)},
	})
}

// fault makes something go wrong, from which a good client recovers.
func (w *Workload) fault() {
	once := func(verb string, actions ...Action) func() {
		return func() { w.Server.Faults().Add(Fault{Verb: verb, Count: 1, Do: actions}) }
	}
	restartAnd := func(then func()) func() {
		return func() { then(); w.Server.Restart() }
	}
	kinds := []struct {
		what string
		do   func()
	}{
		{"server restarts", w.Server.Restart},
		{"history compacted, server restarts: versions expire", restartAnd(w.Server.Compact)},
		{"server restarts, next watch is cut after 4 KiB", restartAnd(once("watch", Cut{AfterBytes: 4 << 10}))},
		{"server restarts, next watch brings a garbled frame", restartAnd(once("watch", Garble{Frame: 1}))},
		{"server restarts, next watch is refused: 429, retry after 1 s", restartAnd(once("watch", Fail{Code: 429, RetryAfter: "1"}))},
		{"server restarts, next watch is refused: 503", restartAnd(once("watch", Fail{Code: 503}))},
	}
	kind := kinds[w.rand.IntN(len(kinds))]
	kind.do()
	if w.OnFault != nil {
		w.OnFault(kind.what)
	}
}
