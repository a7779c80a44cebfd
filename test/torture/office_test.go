package torture

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
)

// office is a manager with a controller that keeps one ConfigMap for each Pod. If it ends because
// it has lost its lease, another manager replaces it, like a restarted process.
type office struct {
	throne
	managers atomic.Int64
	now      atomic.Pointer[manager.Manager]
	cancel   context.CancelFunc
	ended    sync.WaitGroup
}

// of is the prefix of the names of the ConfigMaps.
const of = "of-"

func newOffice(w *world) *office {
	o := &office{throne: throne{w: w, name: "manager"}}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	o.ended.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if err := o.open(ctx, n); err != nil && !errors.Is(err, leaderelection.ErrLost) {
				w.complain("manager %d: %v", n, err)
				time.Sleep(time.Second)
			}
		}
	})
	return o
}

func (o *office) stop() {
	o.cancel()
	o.ended.Wait()
}

// open runs one manager until ctx is done or it ends.
func (o *office) open(ctx context.Context, n int) error {
	election := lease("office", fmt.Sprint("manager-", n))
	opts := manager.Options{
		Scheme: newScheme(), Factory: factory.Options{Timing: reflector.Timing{Backoff: brisk}}, LeaderElection: &election,
		WarmupTimeout: 5 * time.Second, MetricsBindAddress: "127.0.0.1:0",
	}
	m, err := manager.New(o.w.byCertificate(), opts)
	if err != nil {
		return err
	}
	pods := controller.ClientFor[*corev1.Pod](m.Factory())
	maps := controller.ClientFor[*corev1.ConfigMap](m.Factory())
	c, err := controller.New("maps", controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
		return controller.Result{}, reconcile(ctx, pods, maps, r.Key)
	}), m.ControllerOptions())
	if err != nil {
		return err
	}
	c.Watch(controller.For(pods.Informer()))
	c.Watch(controller.MapFunc(maps.Informer(), func(m *corev1.ConfigMap) []controller.Request {
		if name, ours := strings.CutPrefix(m.Name, of); ours {
			return []controller.Request{{Key: object.Key{Namespace: m.Namespace, Name: name}}}
		}
		return nil
	}))
	if err := errors.Join(m.Add(c), m.Add(manager.RunnableFunc(o.sit))); err != nil {
		return err
	}
	o.managers.Add(1)
	o.now.Store(m)
	return m.Run(ctx)
}

// reconcile creates the ConfigMap of one Pod, or deletes it.
func reconcile(ctx context.Context, pods *controller.Client[*corev1.Pod], maps *controller.Client[*corev1.ConfigMap], key object.Key) error {
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: of + key.Name}}
	pod, err := pods.Read(ctx, key)
	if apierrors.IsNotFound(err) {
		have, err := maps.Read(ctx, object.KeyOf(there))
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := maps.Delete(ctx, have); !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, _, err = controller.CreateOrUpdate(ctx, maps, there, func(m *corev1.ConfigMap) error {
		m.Data = wanted(pod)
		return nil
	})
	return err
}

func wanted(pod *corev1.Pod) map[string]string {
	return map[string]string{"uid": string(pod.UID), "n": pod.Labels["n"]}
}

// differs returns the differences between the ConfigMaps and their desired state.
func (o *office) differs(ctx context.Context) string {
	if n := o.throne.now.Load(); n != 1 {
		return fmt.Sprintf("%d managers lead", n)
	}
	have := map[object.Key]map[string]string{}
	for m, err := range rest.ResourceFor[*corev1.ConfigMap](o.w.direct[0]).List(ctx, metav1.ListOptions{}).Items {
		if err != nil {
			return fmt.Sprintf("read the ConfigMaps: %v", err)
		}
		if name, ours := strings.CutPrefix(m.Name, of); ours {
			have[object.Key{Namespace: m.Namespace, Name: name}] = m.Data
		}
	}
	n := 0
	for pod, err := range rest.ResourceFor[*corev1.Pod](o.w.direct[0]).List(ctx, metav1.ListOptions{}).Items {
		if err != nil {
			return fmt.Sprintf("read the Pods: %v", err)
		}
		if n++; fmt.Sprint(have[object.KeyOf(pod)]) != fmt.Sprint(wanted(pod)) {
			return fmt.Sprintf("the ConfigMap of %s has %v, want %v; %s", object.KeyOf(pod), have[object.KeyOf(pod)], wanted(pod), o)
		}
	}
	if n != len(have) {
		return fmt.Sprintf("%d Pods, and ConfigMaps of %d; %s", n, len(have), o)
	}
	return ""
}

// String returns the status of the controller.
func (o *office) String() string {
	m := o.now.Load()
	if m == nil {
		return "there is no manager"
	}
	for _, c := range m.Report().Controllers {
		return fmt.Sprintf("controller %s: %d errors, last %v", c.State, c.Errors, c.Failure)
	}
	return "there is no controller"
}

// controllerSays requires that the controller's last failure contains the words.
func (w *world) controllerSays(words string) {
	w.t.Helper()
	pattern := regexp.MustCompile(words)
	answer := until(saying, func() string {
		if m := w.office.now.Load(); m != nil {
			for _, c := range m.Report().Controllers {
				if c.Failure != nil && c.Failure.Last.After(w.began()) && pattern.MatchString(c.Failure.Error()) {
					return ""
				}
			}
			if s := m.Report().Election; s != nil && s.Failure != nil && s.Failure.When.After(w.began()) && pattern.MatchString(s.Failure.Error()) {
				return "" // it cannot work without rights
			}
		}
		return w.office.String()
	})
	if answer != "" {
		w.complain("want %q, but %s", words, answer)
	}
}
