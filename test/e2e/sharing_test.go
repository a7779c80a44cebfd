//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/examples/controller-manager/life"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
)

var (
	sharers = flag.Int("sharers", 4, "how many processes share the work at first, 4 at least")
	upsets  = flag.Int("upsets", 1, "how often some of them are killed, suspended and added")
)

const (
	branches = 24              // namespaces with a Deployment each
	patience = 5 * time.Minute // for conditions that must hold eventually
)

// workforce is a set of processes that share the work on one server.
type workforce struct {
	*testing.T
	srv    *envtest.Server
	client *rest.Client
	procs  map[string]*sharer
	joined int
}

// sharer is one process.
type sharer struct {
	*exec.Cmd
	log *bytes.Buffer // complete after the process has ended

	// When the process was resumed, in Unix nanoseconds. Work in progress then was late, which the
	// process notices afterwards. It concerns the terms with epochs up to this one.
	woken int64
	late  uint64
}

// TestS01_ProcessesThatShareWork: processes share the Deployments of a real server while these are
// rolled out and scaled. Some processes are killed, suspended for longer than their leases last,
// stopped, and added. According to the server's audit log, no two of them have written in one term
// of a slot, and none has written after a later term had begun. In the end every Deployment has its
// desired state.
//
// On a busy machine, a member may be too slow to renew its Lease and rightly lose its slots. That
// proves nothing and does no harm.
func TestS01_ProcessesThatShareWork(t *testing.T) {
	for _, selects := range []bool{false, true} {
		t.Run(fmt.Sprintf("ShardedListAndWatch=%t", selects), func(t *testing.T) {
			t.Parallel()
			srv := envtest.Start(t, envtest.Options{Audit: envtest.AuditMetadata, Gates: map[string]bool{"ShardedListAndWatch": selects}})
			w := &workforce{T: t, srv: srv, client: connect(t, srv, "admin"), procs: map[string]*sharer{}}
			w.kubelet()
			w.found()
			for range max(*sharers, 4) {
				w.join()
			}
			w.settled()
			for range *upsets {
				w.upset()
			}
			w.settled()
			w.check()
		})
	}
}

func (w *workforce) kubelet() {
	w.Helper()
	m, err := manager.New(loadConfig(w.T, w.srv, "admin"), manager.Options{})
	require.NoError(w, err)
	kubelet, err := life.Kubelet(m.Factory(), 0)
	require.NoError(w, err)
	require.NoError(w, m.Add(kubelet))
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	w.Cleanup(running.Wait)
	w.Cleanup(cancel)
	running.Go(func() {
		if err := m.Run(ctx); err != nil && ctx.Err() == nil {
			w.Errorf("kubelet: %v", err)
		}
	})
}

// found creates the namespaces and their Deployments. The names differ at the beginning, because
// the last letters change little in a hash.
func (w *workforce) found() {
	w.Helper()
	labels := map[string]string{"app": "web"}
	for n := range branches {
		ns, err := rest.ResourceFor[*corev1.Namespace](w.client).Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%c-shop", 'a'+n)}}, metav1.CreateOptions{})
		require.NoError(w, err)
		_, err = w.deployments().Create(w.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "one:1"}}},
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(w, err)
	}
}

func (w *workforce) deployments() *rest.Resource[*appsv1.Deployment] {
	return rest.ResourceFor[*appsv1.Deployment](w.client)
}

// join starts a process.
func (w *workforce) join() (name string) {
	w.Helper()
	w.joined++
	name = "m" + strconv.Itoa(w.joined)
	s := &sharer{Cmd: exec.Command(os.Args[0]), log: &bytes.Buffer{}}
	s.Env, s.Stderr = append(os.Environ(), sharerName+"="+name, "KUBECONFIG="+w.srv.Kubeconfig), s.log
	require.NoError(w, s.Start())
	w.procs[name] = s
	w.Cleanup(func() {
		s.end()
		if w.Failed() {
			w.Logf("%s:\n%s", name, s.log)
		}
	})
	return name
}

// end kills the process, if it runs, and waits for it.
func (s *sharer) end() {
	_ = s.Process.Kill() // it may have ended
	_ = s.Wait()         // with any status
}

// upset changes Deployments all the time. Meanwhile it kills one process, suspends one, stops one,
// and starts two. When the Leases of the first two are gone, it resumes the suspended one.
func (w *workforce) upset() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	var loading sync.WaitGroup
	defer loading.Wait()
	defer cancel()
	loading.Go(func() { w.load(ctx) })
	names := w.alive()
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	killed, suspended, ended := names[0], names[1], names[2]
	w.await("everybody works", func(claims map[string]int) error { return lacking(claims, names...) })

	require.NoError(w, w.procs[killed].Process.Kill())
	require.NoError(w, w.procs[suspended].Process.Signal(syscall.SIGSTOP))
	added := w.join()
	w.await("the slots of who is dead are taken away", func(claims map[string]int) error {
		if claims[killed]+claims[suspended] > 0 {
			return errors.New("not yet")
		}
		return lacking(claims, added)
	})
	w.procs[suspended].late, w.procs[suspended].woken = w.version(), time.Now().UnixNano()
	require.NoError(w, w.procs[suspended].Process.Signal(syscall.SIGCONT))
	require.NoError(w, w.procs[ended].Process.Signal(syscall.SIGTERM))
	added = w.join()
	w.await("who was suspended works again", func(claims map[string]int) error { return lacking(claims, suspended, added) })
	w.await("who was asked to leave has left", func(claims map[string]int) error {
		if _, there := claims[ended]; there {
			return errors.New("its Lease is there")
		}
		return nil
	})
	w.procs[killed].end()
	w.procs[ended].end()
}

// alive returns the names of the running processes.
func (w *workforce) alive() (names []string) {
	for name, s := range w.procs {
		if s.ProcessState == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// load scales and rolls out random Deployments until ctx is done.
func (w *workforce) load(ctx context.Context) {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		key := object.Key{Namespace: fmt.Sprintf("%c-shop", 'a'+rand.IntN(branches)), Name: "web"}
		d, err := w.deployments().Get(ctx, key, metav1.GetOptions{})
		if err == nil {
			d.Spec.Replicas = new(1 + rand.Int32N(3))
			d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("image:%d", n)
			_, err = w.deployments().Update(ctx, d, metav1.UpdateOptions{})
		}
		if err != nil && ctx.Err() == nil {
			w.Logf("the load: %v", err) // a conflict, or a busy server
		}
	}
}

// await waits until right returns nil for the number of slots in each member's Lease.
func (w *workforce) await(what string, right func(claims map[string]int) error) {
	w.Helper()
	w.inTheEnd(what, func() error {
		claims := map[string]int{}
		for l, err := range rest.ResourceFor[*coordinationv1.Lease](w.client).Namespace(sharerGroup).List(w.Context(), metav1.ListOptions{}).Items {
			if err != nil {
				return err
			}
			slots, err := shard.ParseSlots(l.Annotations["shard.millrace.dev/slots"], sharerSlots)
			if err != nil {
				return err
			}
			claims[*l.Spec.HolderIdentity] = slots.Len()
		}
		if err := right(claims); err != nil {
			return fmt.Errorf("%w: %v", err, claims)
		}
		return nil
	})
}

// lacking returns an error if one of the members has no slot.
func lacking(claims map[string]int, names ...string) error {
	for _, name := range names {
		if claims[name] == 0 {
			return fmt.Errorf("%s has nothing", name)
		}
	}
	return nil
}

// inTheEnd retries attempt until it returns nil.
func (w *workforce) inTheEnd(what string, attempt func() error) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := attempt()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("not in %s: %s: %v", patience, what, err)
		}
	}
}

// settled waits until every Deployment has its desired state.
func (w *workforce) settled() {
	w.Helper()
	w.inTheEnd("S02: every Deployment is rolled out", func() error {
		for d, err := range w.deployments().List(w.Context(), metav1.ListOptions{}).Items {
			if err != nil {
				return err
			}
			s, want := d.Status, *d.Spec.Replicas
			if s.ObservedGeneration != d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
				return fmt.Errorf("%s wants %d, generation %d: %+v", object.FormatKey(object.KeyOf(d)), want, d.Generation, s)
			}
		}
		return nil
	})
}

// version returns the current resource version of the server.
func (w *workforce) version() uint64 {
	w.Helper()
	ns, err := rest.ResourceFor[*corev1.Namespace](w.client).Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "now-"}}, metav1.CreateOptions{})
	require.NoError(w, err)
	rv, err := strconv.ParseUint(ns.ResourceVersion, 10, 64)
	require.NoError(w, err)
	return rv
}

// check reads the writers from the audit log.
func (w *workforce) check() {
	w.Helper()
	events, err := w.srv.AuditEvents()
	require.NoError(w, err)
	var writes []signature
	by := map[string]int{}
	for _, e := range events {
		if !slices.Contains([]string{"deployments", "replicasets", "pods"}, e.ObjectRef.Resource) ||
			!slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) || !strings.HasPrefix(e.UserAgent, "sharer/") {
			continue
		}
		s, signed := readSignature(e.UserAgent)
		switch {
		case !signed:
			w.Errorf("S01: %q writes outside of its share: %s %s", e.UserAgent, e.Verb, e.RequestURI)
		case shard.SlotOf(shard.Hash(e.ObjectRef.Namespace), sharerSlots) != s.token.Slot:
			w.Errorf("S01: %q writes to another slot: %s %s", e.UserAgent, e.Verb, e.RequestURI)
		}
		writes = append(writes, s)
		by[s.by]++
	}
	terms, late, faults := judge(writes, func(s signature) bool {
		p := w.procs[s.by]
		return s.late || p != nil && s.token.Epoch <= p.late && s.sent > p.woken
	})
	for _, fault := range faults {
		w.Errorf("S01: %s", fault)
	}
	w.Logf("%d writes in %d terms: %v; sent by who was suspended or too slow, in terms that had ended: %d", len(writes), terms, by, late)
	require.Greater(w, len(writes), 4*branches)
	for name, s := range w.procs {
		s.end()
		if at := strings.Index(s.log.String(), "S03:"); at >= 0 {
			w.Errorf("%s: %.200s", name, s.log.String()[at:])
		}
	}
}

// judge returns the number of terms, the number of late writes, and the faults among the others: in
// a slot, epochs must never decrease, and each must belong to one member.
func judge(writes []signature, late func(signature) bool) (terms, left int, faults []string) {
	slices.SortStableFunc(writes, func(a, b signature) int { return int(a.sent - b.sent) })
	last := map[int]signature{}
	for _, s := range writes {
		if late(s) {
			left++
			continue
		}
		before, known := last[s.token.Slot]
		switch {
		case !known || s.token.Epoch > before.token.Epoch:
			terms++
		case s.token.Epoch < before.token.Epoch:
			faults = append(faults, fmt.Sprintf("%s has written in slot %d with epoch %d, %s after %s had with %d",
				s.by, s.token.Slot, s.token.Epoch, time.Duration(s.sent-before.sent), before.by, before.token.Epoch))
			continue
		case s.by != before.by:
			faults = append(faults, fmt.Sprintf("%s and %s have written in one term of slot %d, %d", before.by, s.by, s.token.Slot, s.token.Epoch))
		}
		last[s.token.Slot] = s
	}
	return terms, left, faults
}
