package life

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
)

// Broken is the prefix of images whose Pods never become ready.
const Broken = "broken"

// Kubelet returns a controller that marks Pods as running and, unless their image is Broken, as ready some
// time later, as a real kubelet would.
func Kubelet(f *factory.Factory, readyAfter time.Duration) (*controller.Controller, error) {
	pods := controller.ClientFor[*corev1.Pod](f)
	kubelet, err := controller.New("kubelet", controller.Objects(pods, func(ctx context.Context, p *corev1.Pod) (controller.Result, error) {
		started := metav1.Now()
		if p.Status.StartTime != nil {
			started = *p.Status.StartTime
		}
		left := time.Until(started.Add(readyAfter))
		_, err := controller.PatchStatus(ctx, pods, p, func(p *corev1.Pod) error {
			p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &started
			ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
			there := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == ready.Type })
			if left <= 0 && !there && !strings.HasPrefix(p.Spec.Containers[0].Image, Broken) {
				p.Status.Conditions = append(p.Status.Conditions, ready)
			}
			return nil
		})
		return controller.Result{RequeueAfter: max(left, 0)}, err
	}), controller.Options{})
	if err != nil {
		return nil, err
	}
	kubelet.Watch(controller.For(pods.Informer()))
	return kubelet, nil
}
