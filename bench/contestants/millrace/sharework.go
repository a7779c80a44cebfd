package millrace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// shareWork measures several programs sharing work. They all run inside this process.
func shareWork(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	replicas := s.Params[scenario.Replicas]
	m := map[string]float64{}
	membership.Assign(1024, crowd(10_000))
	m[results.Assign] = least(5, func() { membership.Assign(1024, crowd(10_000)) }).Seconds()

	one, err := throughput(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	many, err := throughput(ctx, s, replicas)
	if err != nil {
		return nil, err
	}
	m[results.ThroughputRatio] = many / one
	if err := moves(ctx, s, m); err != nil {
		return nil, err
	}
	if err := s.Mark(protocol.MarkDone); err != nil {
		return nil, err
	}
	return &protocol.Result{Metrics: m}, nil
}

// crowd returns n members of equal weight.
func crowd(n int) map[string]int {
	all := map[string]int{}
	for i := range n {
		all[fmt.Sprint("member-", i)] = 1
	}
	return all
}

// least returns the duration of the fastest of n runs of f.
func least(n int, f func()) time.Duration {
	var best time.Duration
	for i := range n {
		began := time.Now()
		f()
		if took := time.Since(began); i == 0 || took < best {
			best = took
		}
	}
	return best
}

// reconcileTakes is the simulated time each reconcile spends waiting for the server.
const reconcileTakes = 5 * time.Millisecond

// throughput returns the combined reconciles per second of several programs with one worker each. The clock
// starts once all work is queued, so the result reflects the distribution of work and excludes requests.
func throughput(ctx context.Context, s *protocol.Session, replicas int) (float64, error) {
	cfg, ns := &config.Config{Host: s.URL}, fresh(fmt.Sprint("of-", replicas))
	client, err := rest.NewClient(cfg, scheme.New())
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	if err := each(s.Objects, func(n int) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("object-", n)}}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	var done atomic.Int64
	begin := make(chan struct{}) // closed when work may start
	var groups []*membership.Group
	for n := range replicas {
		m, err := manager.New(cfg, manager.Options{
			Sharding: &membership.Options{Namespace: ns, Name: ns, Identity: fmt.Sprint("replica-", n)},
		})
		if err != nil {
			return 0, err
		}
		part := m.Shard(shard.ByUID())
		groups = append(groups, part.Share.(*membership.Group))
		err = manager.ControllerWith(m, factory.For[*corev1.ConfigMap]{Scope: factory.Scope{Namespaces: []string{ns}, Shard: part}}).
			With(controller.Options{Concurrency: 1}).
			Complete(func(ctx context.Context, o *corev1.ConfigMap) (controller.Result, error) {
				select {
				case <-begin:
				case <-ctx.Done(): // another program owns the slot now
					return controller.Result{}, nil
				}
				select {
				case <-time.After(reconcileTakes):
					done.Add(1)
				case <-ctx.Done():
				}
				return controller.Result{}, nil
			})
		if err != nil {
			return 0, err
		}
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	if _, err := stable(ctx, groups); err != nil {
		return 0, err
	}
	began := time.Now()
	close(begin)
	for done.Load() < int64(s.Objects) {
		if err := pause(ctx); err != nil {
			return 0, err
		}
	}
	return float64(s.Objects) / time.Since(began).Seconds(), nil
}

// fresh returns a name that no other round has used on this server.
func fresh(name string) string { return fmt.Sprint(name, "-", os.Getpid()) }

// each calls do with 0 to n-1, up to 16 at a time.
func each(n int, do func(int) error) error {
	var errs [16]error
	var running sync.WaitGroup
	for worker := range errs {
		running.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += len(errs) {
				errs[worker] = do(i)
			}
		})
	}
	running.Wait()
	return errors.Join(errs[:]...)
}

// stable waits until every slot has its intended owner, and returns the owners.
func stable(ctx context.Context, groups []*membership.Group) ([]int, error) {
	for {
		owners, free := make([]int, 1024), 1024
		well := true
		for n, g := range groups {
			s := g.Status()
			well = well && len(s.Members) == len(groups) && s.Owned.Equal(s.Wanted)
			for _, slot := range s.Owned.All() {
				owners[slot] = n
				free--
			}
		}
		if well && free == 0 {
			return owners, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// member is a group member that does no work.
type member struct {
	*membership.Group
	leave context.CancelFunc
	dead  atomic.Bool // its requests fail
}

func (m *member) RoundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("it is dead")
	}
	return next.RoundTrip(req)
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// moves measures how many slots move, and how long they go without an owner, when a member joins, leaves or
// crashes.
func moves(ctx context.Context, s *protocol.Session, m map[string]float64) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	replicas, name := s.Params[scenario.Replicas], fresh("moves")
	join := func(n int) (*member, error) {
		one := &member{}
		client, err := rest.NewClient(&config.Config{Host: s.URL, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return transport(func(req *http.Request) (*http.Response, error) { return one.RoundTrip(next, req) })
		}}, scheme.New())
		if err != nil {
			return nil, err
		}
		if one.Group, err = membership.New(client, membership.Options{Namespace: name, Name: name, Identity: fmt.Sprint("replica-", n)}); err != nil {
			return nil, err
		}
		var own context.Context
		own, one.leave = context.WithCancel(ctx)
		running.Go(func() { _ = one.Run(own) }) // it returns nil
		return one, nil
	}
	var all []*member
	groups := func(of []*member) (groups []*membership.Group) {
		for _, one := range of {
			groups = append(groups, one.Group)
		}
		return groups
	}
	for n := range replicas {
		one, err := join(n)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	before, err := stable(ctx, groups(all))
	if err != nil {
		return err
	}
	one, err := join(replicas)
	if err != nil {
		return err
	}
	all = append(all, one)
	after, err := stable(ctx, groups(all))
	if err != nil {
		return err
	}
	m[results.MovedAtJoin] = differ(before, after)

	last := len(all) - 1
	began := time.Now()
	all[last].leave()
	all = all[:last]
	after, err = stable(ctx, groups(all))
	if err != nil {
		return err
	}
	m[results.OwnerlessLeave] = time.Since(began).Seconds()

	before, last = after, len(all)-1
	all[last].leave()
	all = all[:last]
	if after, err = stable(ctx, groups(all)); err != nil {
		return err
	}
	m[results.MovedAtLeave] = differ(before, after)

	last = len(all) - 1
	all[last].dead.Store(true)
	began = time.Now()
	all = all[:last]
	if _, err = stable(ctx, groups(all)); err != nil {
		return err
	}
	m[results.OwnerlessCrash] = time.Since(began).Seconds()
	return nil
}

// differ returns the fraction of slots whose owners differ.
func differ(a, b []int) float64 {
	n := 0
	for slot := range a {
		if a[slot] != b[slot] {
			n++
		}
	}
	return float64(n) / float64(len(a))
}
