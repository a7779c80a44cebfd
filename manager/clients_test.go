package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func TestClientsOfAManager(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{})
		pods := manager.Client[*corev1.Pod](m)
		require.Same(t, pods, manager.Client[*corev1.Pod](m))
		require.Equal(t, corev1.SchemeGroupVersion.WithKind("Pod"), pods.Kind())
		require.Equal(t, "pods", fmt.Sprint(pods))
		require.Empty(t, m.Status(), "nothing has used it yet")
		require.Same(t, pods, manager.ControllerFor[*corev1.Pod](m).Client())
		require.Empty(t, m.Status(), "a builder that is not completed lists nothing")
		p := controllertest.Put(e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}})
		e.Start(m)
		got, ok := pods.Get(object.KeyOf(p))
		require.True(t, ok, "its cache is made before the program runs, although nothing but a read uses it")
		require.Equal(t, p.UID, got.UID)

		maps := manager.Client[*corev1.ConfigMap](m)
		require.Len(t, m.Status(), 2, "and at once while it runs")
		e.Settle(time.Second)
		_, err := maps.Read(e.Context(), object.KeyOf(p))
		require.NotErrorIs(t, err, sharedinformer.ErrNotSynced)
	})
	defer func() { require.Regexp(t, `^manager/clients_test.go:\d+: the manager is nil$`, recover()) }()
	manager.Client[*corev1.Pod](nil)
}

func TestShardedControllers(t *testing.T) {
	nothing := func(context.Context, *appsv1.Deployment) (result, error) { return result{}, nil }
	scopes := func(m *manager.Manager) (all []string) {
		for _, i := range []interface{ Scope() shard.Scope }{manager.Client[*appsv1.Deployment](m).Informer(), manager.Client[*corev1.ConfigMap](m).Informer(), manager.Client[*corev1.Secret](m).Informer()} {
			if all = append(all, "all"); !i.Scope().Everything() {
				all[len(all)-1] = i.Scope().Key.String()
			}
		}
		return all
	}
	options := manager.Options{Sharding: &membership.Options{Name: "group", Namespace: "shop"}}
	maps := func(m *manager.Manager) *controller.Client[*corev1.ConfigMap] {
		return manager.Client[*corev1.ConfigMap](m)
	}
	begin := func(m *manager.Manager) *manager.Builder[*appsv1.Deployment] {
		return manager.ControllerFor[*appsv1.Deployment](m)
	}
	index := func(p *appsv1.Deployment) []string { return []string{p.Name} }
	for name, c := range map[string]struct {
		opts  manager.Options
		build func(m *manager.Manager) error
		want  []string // scopes
		fails string
	}{
		"sharded first": {options, func(m *manager.Manager) error {
			return begin(m).Sharded().Owns(maps(m)).Reads(manager.Client[*corev1.Secret](m)).Complete(nothing)
		},
			[]string{"uid", "controller owner", "all"}, ""},
		"sharded last": {options, func(m *manager.Manager) error { return begin(m).Owns(maps(m)).Sharded().Complete(nothing) },
			[]string{"uid", "controller owner", "all"}, ""},
		"owned with predicates": {options, func(m *manager.Manager) error {
			return begin(m).Owns(controller.Where(maps(m), controller.LabelsChanged[*corev1.ConfigMap]())).Sharded().Complete(nothing)
		}, []string{"uid", "controller owner", "all"}, ""},
		"of one process": {manager.Options{}, func(m *manager.Manager) error { return begin(m).Owns(maps(m)).Sharded().Complete(nothing) }, []string{"all", "all", "all"}, ""},
		"not sharded":    {options, func(m *manager.Manager) error { return begin(m).Owns(maps(m)).Complete(nothing) }, []string{"all", "all", "all"}, ""},
		"an index before": {options, func(m *manager.Manager) error {
			b := begin(m)
			controller.AddIndex(b.Client(), "name", index)
			return b.Sharded().Complete(nothing)
		}, nil, "manager/clients_test.go:"},
		"an index of what is owned": {options, func(m *manager.Manager) error {
			maps(m).Cache()
			return begin(m).Sharded().Owns(maps(m)).Complete(nothing)
		}, nil, "the cache of configmaps is in use and unsharded: call Sharded before the first index, source or read, and before the manager runs"},
		"an index after": {options, func(m *manager.Manager) error {
			b := begin(m).Sharded()
			controller.AddIndex(b.Client(), "name", index)
			return b.Owns(maps(m)).Complete(nothing)
		}, []string{"uid", "controller owner", "all"}, ""},
		"a client of the factory": {options, func(m *manager.Manager) error {
			return begin(m).Sharded().Owns(controller.ClientFor[*corev1.ConfigMap](m.Factory())).Complete(nothing)
		}, nil, "the client for configmaps already has an informer: create the client with manager.Client"},
		"two kinds of owners": {options, func(m *manager.Manager) error {
			if err := begin(m).Sharded().Complete(nothing); err != nil {
				return err
			}
			return manager.ControllerFor[*corev1.ConfigMap](m).Sharded().Owns(manager.Client[*appsv1.Deployment](m)).Complete(func(context.Context, *corev1.ConfigMap) (result, error) { return result{}, nil })
		}, nil, "the cache of deployments.apps is sharded by uid and cannot also be sharded by controller owner"},
		"a share of its own": {options, func(m *manager.Manager) error {
			own := factory.For[*appsv1.Deployment]{Scope: factory.Scope{Shard: m.Shard(shard.ByNamespace())}}
			return manager.ControllerWith(m, own).Sharded().Owns(maps(m)).Complete(nothing)
		}, nil, "the cache of deployments.apps is sharded by namespace and cannot also be sharded by uid: remove one of the two"},
		"two controllers": {options, func(m *manager.Manager) error {
			if err := begin(m).Sharded().Owns(maps(m)).Complete(nothing); err != nil {
				return err
			}
			return begin(m).Named("other").Sharded().Owns(maps(m)).Complete(nothing)
		}, []string{"uid", "controller owner", "all"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				m := e.Manager(c.opts)
				err := c.build(m)
				if c.fails != "" {
					require.ErrorContains(t, err, c.fails)
					require.ErrorContains(t, err, "manager/clients_test.go:")
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.want, scopes(m))
				e.Start(m)
				e.Settle(time.Minute)
			})
		})
	}
}

// The program can be limited to a part of the objects, and a share is then a share of that part.
func TestAShareKeepsTheDefaultScope(t *testing.T) {
	ours := factory.Scope{Namespaces: []string{"shop"}, Labels: labels.SelectorFromSet(labels.Set{"ours": "yes"})}
	controllertest.RunWith(t, controllertest.Options{Factory: factory.Options{Scope: ours}}, func(e *controllertest.Env) {
		m := e.Manager(manager.Options{Sharding: &membership.Options{Name: "group", Namespace: "shop"}})
		var reconciled []string
		require.NoError(t, manager.ControllerFor[*corev1.ConfigMap](m).Sharded().Complete(func(_ context.Context, c *corev1.ConfigMap) (result, error) {
			reconciled = append(reconciled, c.Namespace+"/"+c.Name)
			return result{}, nil
		}))
		for _, o := range []metav1.ObjectMeta{
			{Namespace: "shop", Name: "ours", Labels: map[string]string{"ours": "yes"}}, {Namespace: "shop", Name: "theirs"},
			{Namespace: "bank", Name: "elsewhere", Labels: map[string]string{"ours": "yes"}},
		} {
			controllertest.Put(e, &corev1.ConfigMap{ObjectMeta: o})
		}
		e.Start(m)
		e.Settle(time.Minute)
		require.Equal(t, []string{"shop/ours"}, reconciled)
		require.Equal(t, "uid", manager.Client[*corev1.ConfigMap](m).Informer().Scope().Key.String())
	})
}

// A sharded controller cannot own a kind whose informer is unsharded.
func TestAShardedControllerWithAWholeInformer(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{Sharding: &membership.Options{Name: "group"}})
		require.NoError(r, manager.ControllerFor[*appsv1.Deployment](m).Sharded().Owns(factory.Informer[*corev1.ConfigMap](m.Factory())).
			Complete(func(context.Context, *appsv1.Deployment) (result, error) { return result{}, nil }))
		run := r.start(m)
		settle(time.Second)
		require.ErrorContains(r, run.end(), "its informer is unsharded but the reconciled kind's is sharded")
	})
}

// The first use of any method creates the cache, from any goroutine.
func TestTheFirstUseOfAClient(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, pods *controller.Client[*corev1.Pod]){
		"owned": func(_ context.Context, pods *controller.Client[*corev1.Pod]) {
			require.NotNil(t, pods.OwnedBy(&corev1.Node{}).Informer())
		},
		"informer": func(_ context.Context, pods *controller.Client[*corev1.Pod]) { require.NotNil(t, pods.Informer()) },
		"resource": func(_ context.Context, pods *controller.Client[*corev1.Pod]) { require.NotNil(t, pods.Resource()) },
		"view":     func(_ context.Context, pods *controller.Client[*corev1.Pod]) { require.NotNil(t, pods.View()) },
		"cache":    func(_ context.Context, pods *controller.Client[*corev1.Pod]) { require.Zero(t, pods.Cache().Len()) },
		"subresource": func(_ context.Context, pods *controller.Client[*corev1.Pod]) {
			require.NotNil(t, controller.SubresourceFor[*corev1.Pod](pods, "status").Resource())
		},
		"source": func(_ context.Context, pods *controller.Client[*corev1.Pod]) {
			require.NoError(t, controller.For(pods).Err())
		},
		"where": func(_ context.Context, pods *controller.Client[*corev1.Pod]) {
			require.NoError(t, controller.Owned(controller.Where(pods), pods).Err())
		},
		"read": func(ctx context.Context, pods *controller.Client[*corev1.Pod]) {
			_, err := pods.Read(ctx, object.Key{Namespace: "shop", Name: "none"})
			require.Error(t, err)
		},
		"create": func(ctx context.Context, pods *controller.Client[*corev1.Pod]) {
			_, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "p"}})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, func(e *controllertest.Env) {
				m := e.Manager(manager.Options{})
				var uses sync.WaitGroup
				for range 4 {
					uses.Go(func() { use(e.Context(), manager.Client[*corev1.Pod](m)) })
				}
				uses.Wait()
				require.Len(t, m.Status(), 1)
			})
		})
	}
}
