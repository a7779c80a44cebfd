package simulation

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/workqueue"
)

// copier is a controller that maintains a ConfigMap with the content of each pod.
type copier struct {
	play    *play
	pods    *controller.Client[*corev1.Pod]
	copies  *controller.Client[*corev1.ConfigMap]
	manners *manners
	end     func() error // nil if not running
	next    atomic.Int64 // how the next reconcile fails; see mood
	mu      sync.Mutex
	running map[object.Key]bool
	wrote   map[object.Key]written // the last write per key
	lost    map[object.Key]bool    // writes that a restore undid, for which no event arrives
	caught  map[object.Key]bool    // reconciles whose responses may not arrive until after a restore
	again   map[object.Key]promise // when failed or requeued reconciles must run again
	workers int
	full    time.Time // when all workers were last busy
}

func newCopier(p *play) *copier {
	c := &copier{play: p, running: map[object.Key]bool{}, wrote: map[object.Key]written{}, lost: map[object.Key]bool{}, caught: map[object.Key]bool{}, again: map[object.Key]promise{}, workers: 1 + int(p.Seed%2)}
	c.start()
	return c
}

// start starts the controller as a new process.
func (c *copier) start() {
	if c.end != nil {
		return
	}
	p := c.play
	p.say("copier", "starts")
	of := p.process(false)
	c.manners = of.manners
	f := factory.New(of.client, factory.Options{})
	c.pods, c.copies = controller.ClientFor[*corev1.Pod](f), controller.ClientFor[*corev1.ConfigMap](f)
	c.mu.Lock()
	clear(c.wrote)
	clear(c.again)
	c.mu.Unlock()
	run, err := controller.New("copier", controller.Func(c.reconcile), controller.Options{Concurrency: c.workers})
	if err != nil {
		p.breaks("controller.New: %v", err)
		return
	}
	run.Watch(controller.For(c.pods.Informer()))
	run.Watch(controller.Handle(c.copies.Informer(), func(_ context.Context, e sharedinformer.Event[*corev1.ConfigMap], in *controller.Inbox) error {
		in.Add(controller.Updated, object.KeyOf(e.Object), controller.RequestFor(e.Object))
		return nil
	}))
	ctx, cancel := context.WithCancel(p.ctx)
	f.Start(ctx)
	ended := make(chan error, 1)
	p.runs.Go(func() { ended <- run.Run(ctx) })
	c.end = func() error {
		cancel()
		err := <-ended
		f.Wait()
		return err
	}
}

func (c *copier) stop() {
	if c.end == nil {
		return
	}
	c.play.say("copier", "stops")
	if err := c.end(); err != nil {
		c.play.breaks("L23: the controller's Run failed: %v", err)
	}
	c.end = nil
}

func (c *copier) toggle() {
	if c.end == nil {
		c.start()
	} else {
		c.stop()
	}
}

func (c *copier) heal() {
	c.next.Store(int64(well))
	c.start()
}

// reconcile updates one copy.
func (c *copier) reconcile(ctx context.Context, req controller.Request) (result controller.Result, err error) {
	c.begin(ctx, req.Key)
	broken := true
	defer func() {
		if broken {
			err = errPlanned
		}
		c.done(req.Key, result, err)
	}()
	switch mood(c.next.Swap(int64(well))) {
	case panics:
		panic(errPlanned)
	case exits:
		runtime.Goexit()
	case fails:
		return controller.Result{}, errPlanned
	case blocks:
		select {
		case <-ctx.Done():
		case <-time.After(90 * time.Second):
		}
	case quits:
		broken = false
		return controller.Result{RequeueAfter: 7 * time.Second}, nil
	}
	result, err = c.copy(ctx, req)
	broken = false
	return result, err
}

// copy updates the copy of one pod.
func (c *copier) copy(ctx context.Context, req controller.Request) (controller.Result, error) {
	c.play.say("copier", "reconciles %s", req.Key)
	c.ownWrites(req.Key)
	pod, ok := c.pods.Get(req.Key)
	if !ok {
		return controller.Result{}, c.drop(ctx, req.Key)
	}
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	now, outcome, err := controller.CreateOrUpdate(ctx, c.copies, want, func(m *corev1.ConfigMap) error {
		m.Data = map[string]string{"content": pod.Labels["content"], "uid": string(pod.UID)}
		return nil
	})
	c.play.say("copier", "%s %s: %v", req.Key, outcome, err)
	if err == nil && outcome != controller.Unchanged {
		c.note(req.Key, now.ResourceVersion)
	}
	return controller.Result{}, err
}

// written is a write by the controller.
type written struct {
	rv string
	at time.Time
}

// note records a write. A deletion has no version.
func (c *copier) note(key object.Key, rv string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote[key] = written{rv, time.Now()}
	if c.caught[key] {
		c.lost[key] = true
	}
}

// lose marks the writes since the given time as undone by a restore. If the response to a write is still in
// flight, the write is marked later.
func (c *copier) lose(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, w := range c.wrote {
		if !w.at.Before(since) {
			c.lost[key] = true
		}
	}
	for key := range c.running {
		c.caught[key] = true
	}
}

// ownWrites reports a violation if the cached copy is older than the one the last reconcile wrote, unless the
// controller has since given up waiting.
func (c *copier) ownWrites(key object.Key) {
	c.mu.Lock()
	last := c.wrote[key]
	c.mu.Unlock()
	have, ok := c.copies.Get(key)
	if ok && time.Since(last.at) < controller.DefaultPatience && number(have.ResourceVersion) < number(last.rv) && c.play.restored.Load() == 0 {
		c.play.breaks("controller: %s was reconciled with its copy at %s after %s was written", key, have.ResourceVersion, last.rv)
	}
}

func (c *copier) drop(ctx context.Context, key object.Key) error {
	have, ok := c.copies.Get(key)
	if !ok {
		return nil
	}
	err := c.copies.Delete(ctx, have)
	c.play.say("copier", "%s deleted: %v", key, err)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	c.note(key, "") // even if another client deleted it: a restore undoes the deletion, and the cache may have missed both
	return nil
}

// promise records when a request must be handed out again.
type promise struct {
	failures  int
	since, by time.Time // by is zero if there is no promise
}

// slack is how late a request may be.
const slack = 100 * time.Millisecond

// news lets a reconcile that was caused by a change write immediately, whatever a server's response to the
// previous reconcile. A mere retry has to wait. If a change and a retry coincide, either may be the cause.
func (c *copier) news(ctx context.Context, key object.Key) {
	causes := controller.Causes(ctx)
	if len(causes) == 0 || slices.ContainsFunc(causes, func(why controller.Cause) bool { return why.Type != controller.Failed }) {
		c.manners.allow("/api/v1/namespaces/" + key.Namespace + "/configmaps/" + key.Name)
	}
}

func (c *copier) begin(ctx context.Context, key object.Key) {
	c.news(ctx, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[key] {
		c.play.breaks("L26: %s is being reconciled twice at the same time", key)
	}
	c.running[key] = true
	delete(c.lost, key)
	delete(c.caught, key)
	c.kept(key)
	again := c.again[key]
	again.by = time.Time{}
	c.again[key] = again
	c.busy()
}

// done records a reconcile's outcome, and when the next one must start.
func (c *copier) done(key object.Key, result controller.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy()
	delete(c.running, key)
	again := promise{since: time.Now()}
	switch {
	case err != nil:
		again.failures = c.again[key].failures + 1
		wait := min(workqueue.DefaultMax, workqueue.DefaultBase<<min(again.failures-1, 20))
		if apierrors.IsConflict(err) {
			wait = max(wait, controller.DefaultPatience) // unless the cache receives a different version first
		}
		asked, _ := source.RetryAfter(err)
		again.by = again.since.Add(max(wait, asked+asked/4) + slack)
	case result.RequeueAfter > 0:
		again.by = again.since.Add(result.RequeueAfter + slack)
	}
	c.again[key] = again
}

// busy records the current time if all workers are busy.
func (c *copier) busy() {
	if len(c.running) >= c.workers {
		c.full = time.Now()
	}
}

// kept reports a violation if a request is late even though a worker was free the whole time and the cache
// has caught up with the request's writes.
func (c *copier) kept(key object.Key) {
	p := c.again[key]
	if !p.by.IsZero() && time.Now().After(p.by) && !c.full.After(p.since) && c.wrote[key].at.Add(controller.DefaultPatience).Before(p.by) {
		c.play.breaks("L29: %s should have been reconciled again %s ago, after %d failures", key, time.Since(p.by), p.failures)
	}
}

// check finds late requests.
func (c *copier) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy()
	for key := range c.again {
		if c.end != nil {
			c.kept(key)
		}
	}
}

// settled returns the differences between the copies and the pods.
func (c *copier) settled() []string {
	want, got := map[object.Key]string{}, map[object.Key]string{}
	for _, o := range c.play.srv.Objects(podGVR) {
		want[object.KeyOf(o)] = o.GetLabels()["content"]
	}
	for _, o := range c.play.srv.Objects(configMapGVR) {
		got[object.KeyOf(o)] = o.(*corev1.ConfigMap).Data["content"]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.lost {
		delete(want, key)
		delete(got, key)
	}
	return difference("L27: the copies", want, got)
}
