package controllerruntime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/apiservertest"
)

func TestGetInEachForm(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{})
		for _, out := range podForms() {
			require.NoError(r, c.Get(r.ctx, key("shop", "a"), out))
			require.Equal(r, "web", out.GetLabels()["app"])
			require.Equal(r, podKind, kindOf(out))
			out.GetLabels()["app"] = "changed"
			require.NoError(r, c.Get(r.ctx, key("shop", "a"), out))
			require.Equal(r, "web", out.GetLabels()["app"], "what is read is the caller's own")
			err := c.Get(r.ctx, key("shop", "b"), out)
			require.True(r, apierrors.IsNotFound(err), "%v", err)
		}
	})
}

func TestListInEachForm(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("bank", "b", "db"))
		c := r.running(cache.Options{})
		listKind := podKind
		listKind.Kind += "List"
		raw := &unstructured.UnstructuredList{}
		raw.SetGroupVersionKind(listKind)
		part := &metav1.PartialObjectMetadataList{}
		part.SetGroupVersionKind(listKind)
		typed := &corev1.PodList{}
		for _, list := range []client.ObjectList{part, typed, raw} {
			require.NoError(r, c.List(r.ctx, list))
		}
		require.Len(r, typed.Items, 2)
		require.Len(r, raw.Items, 2)
		require.Len(r, part.Items, 2)
		require.Equal(r, podKind, kindOf(&typed.Items[0]))
		require.Equal(r, podKind, kindOf(&raw.Items[0]))
		require.Equal(r, podKind, kindOf(&part.Items[0]))
	})
}

func TestListSelects(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("shop", "b", "db"), pod("bank", "a", "web"))
		c := r.running(cache.Options{})
		require.Equal(r, []string{"bank/a", "shop/a", "shop/b"}, r.names(c))
		require.Equal(r, []string{"shop/a", "shop/b"}, r.names(c, client.InNamespace("shop")))
		require.Equal(r, []string{"bank/a", "shop/a"}, r.names(c, client.MatchingLabels{"app": "web"}))
		require.Equal(r, []string{"shop/a"}, r.names(c, client.MatchingLabels{"app": "web"}, client.InNamespace("shop")))
		require.Len(r, r.names(c, client.Limit(2)), 2)
		require.Empty(r, r.names(c, client.InNamespace("none")))
		require.Error(r, c.List(r.ctx, &corev1.PodList{}, client.Continue("x")))
	})
}

// nodeOf and appOf are field index functions.
func nodeOf(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
func appOf(o client.Object) []string  { return []string{o.GetLabels()["app"]} }

// An index without a function would silently find nothing.
func TestAFieldIndexWithoutAFunctionIsRefused(t *testing.T) {
	on(t, newCache, func(r *rig) {
		err := r.cache(cache.Options{}).IndexField(r.ctx, &corev1.Pod{}, "spec.nodeName", nil)
		require.ErrorContains(r, err, "the function is nil")
	})
}

func TestFieldIndexes(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("shop", "b", "db"), pod("bank", "a", "web"))
		c := r.cache(cache.Options{})
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "spec.nodeName", nodeOf))
		r.start(c)
		require.Equal(r, []string{"bank/a", "shop/a"}, r.names(c, client.MatchingFields{"spec.nodeName": "node-web"}))
		require.Equal(r, []string{"bank/a"}, r.names(c, client.MatchingFields{"spec.nodeName": "node-web"}, client.InNamespace("bank")))
		require.Empty(r, r.names(c, client.MatchingFields{"spec.nodeName": "none"}))

		require.Error(r, c.List(r.ctx, &corev1.PodList{}, client.MatchingFields{"app": "web"}), "there is no such index")
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf), "late")
		require.Equal(r, []string{"shop/b"}, r.names(c, client.MatchingFields{"app": "db"}))
		require.Equal(r, []string{"shop/a"}, r.names(c, client.MatchingFields{"app": "web", "spec.nodeName": "node-web"}, client.InNamespace("shop")))
		require.Empty(r, r.names(c, client.MatchingFields{"app": "db", "spec.nodeName": "node-web"}))
		require.Error(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf), "there is one already")
		for _, selector := range []fields.Selector{fields.Everything(), fields.OneTermNotEqualSelector("app", "web")} {
			require.Error(r, c.List(r.ctx, &corev1.PodList{}, client.MatchingFieldsSelector{Selector: selector}))
		}

		moved := pod("shop", "b", "web")
		r.put(moved)
		settle(0)
		require.Equal(r, []string{"bank/a", "shop/a", "shop/b"}, r.names(c, client.MatchingFields{"spec.nodeName": "node-web"}))
		require.Empty(r, r.names(c, client.MatchingFields{"app": "db"}))
	})
}

// fields.Nothing combined with another selector still has that selector's fields, so it must be
// refused.
func TestNoFieldsAndMoreAreRefused(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"))
		c := r.cache(cache.Options{})
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf))
		r.start(c)
		none := fields.AndSelectors(fields.Nothing(), fields.OneTermEqualSelector("app", "web"))
		require.ErrorContains(r, c.List(r.ctx, &corev1.PodList{}, client.MatchingFieldsSelector{Selector: none}), "only exact matches")
	})
}

// L15: if an index function panics for an object, a reader that combines the index with another
// does not find the object either, and does not panic.
func TestL15_PanickingIndexDoesNotPanicInTheReader(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("shop", "b", "web"))
		c := r.running(cache.Options{})
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf))
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			if o.GetName() == "a" {
				panic("no node")
			}
			return nodeOf(o)
		}))
		require.Equal(r, []string{"shop/b"}, r.names(c, client.MatchingFields{"spec.nodeName": "node-web"}))
		require.Equal(r, []string{"shop/b"}, r.names(c, client.MatchingFields{"app": "web", "spec.nodeName": "node-web"}))
	})
}

func TestNotStarted(t *testing.T) {
	onAll(t, func(r *rig) {
		c := r.cache(cache.Options{})
		var missing *cache.ErrCacheNotStarted
		require.ErrorAs(r, c.Get(r.ctx, key("shop", "a"), &corev1.Pod{}), &missing)
		require.ErrorAs(r, c.List(r.ctx, &corev1.PodList{}), &missing)
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err, "it does not wait for a cache that does not run")
	})
}

func TestReaderFailOnMissingInformer(t *testing.T) {
	onAll(t, func(r *rig) {
		c := r.running(cache.Options{ReaderFailOnMissingInformer: true})
		var missing *cache.ErrResourceNotCached
		require.ErrorAs(r, c.Get(r.ctx, key("shop", "a"), &corev1.Pod{}), &missing)
		require.Equal(r, podKind, missing.GVK)
		_, err := c.GetInformer(r.ctx, &corev1.Pod{})
		require.NoError(r, err)
		require.True(r, apierrors.IsNotFound(c.Get(r.ctx, key("shop", "a"), &corev1.Pod{})))
	})
}

func TestUnsafeDisableDeepCopy(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"of all":       {DefaultUnsafeDisableDeepCopy: new(true)},
		"of a kind":    {ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {UnsafeDisableDeepCopy: new(true)}}},
		"of the reads": {},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(r *rig) {
				r.put(pod("shop", "a", "web"))
				c := r.running(opts)
				var one, two corev1.Pod
				var list corev1.PodList
				var get []client.GetOption
				var all []client.ListOption
				if name == "of the reads" {
					get, all = append(get, client.UnsafeDisableDeepCopy), append(all, client.UnsafeDisableDeepCopy)
				}
				require.NoError(r, c.Get(r.ctx, key("shop", "a"), &one, get...))
				require.NoError(r, c.Get(r.ctx, key("shop", "a"), &two, get...))
				require.NoError(r, c.List(r.ctx, &list, all...))
				for _, labels := range []map[string]string{two.Labels, list.Items[0].Labels} {
					require.Equal(r, fmt.Sprintf("%p", one.Labels), fmt.Sprintf("%p", labels), "one map")
				}
			})
		})
	}
}

// The requests to the server show the combined effect of all options. All sides send the same.
func TestOptionsNarrow(t *testing.T) {
	web, db := labels.SelectorFromSet(labels.Set{"app": "web"}), labels.SelectorFromSet(labels.Set{"app": "db"})
	node := fields.OneTermEqualSelector("spec.nodeName", "node-web")
	pods := func(own cache.ByObject) map[client.Object]cache.ByObject {
		return map[client.Object]cache.ByObject{&corev1.Pod{}: own}
	}
	for name, test := range map[string]struct {
		opts cache.Options
		want []request
	}{
		"not at all": {cache.Options{}, []request{{"/api/v1/nodes", "", ""}, {"/api/v1/pods", "", ""}}},
		"by default selectors": {
			cache.Options{DefaultLabelSelector: web, DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "a")},
			[]request{{"/api/v1/nodes", "app=web", "metadata.name=a"}, {"/api/v1/pods", "app=web", "metadata.name=a"}},
		},
		"by default namespaces": {
			cache.Options{DefaultLabelSelector: web, DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {LabelSelector: db}}},
			[]request{{"/api/v1/namespaces/bank/pods", "app=db", ""}, {"/api/v1/namespaces/shop/pods", "app=web", ""}, {"/api/v1/nodes", "app=web", ""}},
		},
		"with all others": {
			cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}, cache.AllNamespaces: {LabelSelector: db}}},
			[]request{
				{"/api/v1/namespaces/bank/pods", "", ""}, {"/api/v1/namespaces/shop/pods", "", ""}, {"/api/v1/nodes", "", ""},
				{"/api/v1/pods", "app=db", "metadata.namespace!=bank,metadata.namespace!=shop"},
			},
		},
		"with all others, by fields": {
			cache.Options{ByObject: pods(cache.ByObject{Field: node, Namespaces: map[string]cache.Config{"shop": {}, cache.AllNamespaces: {}}})},
			[]request{
				{"/api/v1/namespaces/shop/pods", "", "spec.nodeName=node-web"}, {"/api/v1/nodes", "", ""},
				{"/api/v1/pods", "", "metadata.namespace!=shop,spec.nodeName=node-web"},
			},
		},
		"a kind": {
			cache.Options{DefaultLabelSelector: db, ByObject: pods(cache.ByObject{Label: web, Field: node})},
			[]request{{"/api/v1/nodes", "app=db", ""}, {"/api/v1/pods", "app=web", "spec.nodeName=node-web"}},
		},
		"a kind, with all labels": {
			cache.Options{DefaultLabelSelector: db, ByObject: pods(cache.ByObject{Label: labels.Everything()})},
			[]request{{"/api/v1/nodes", "app=db", ""}, {"/api/v1/pods", "", ""}},
		},
		"a kind to namespaces": {
			cache.Options{
				DefaultNamespaces: map[string]cache.Config{"shop": {LabelSelector: db, FieldSelector: node}, "bank": {}},
				ByObject:          pods(cache.ByObject{Label: web, Namespaces: map[string]cache.Config{"shop": {}}}),
			},
			[]request{{"/api/v1/namespaces/shop/pods", "app=web", "spec.nodeName=node-web"}, {"/api/v1/nodes", "", ""}},
		},
		"a kind to all namespaces": {
			cache.Options{
				DefaultNamespaces: map[string]cache.Config{"shop": {}},
				ByObject:          pods(cache.ByObject{Label: web, Namespaces: map[string]cache.Config{}}),
			},
			[]request{{"/api/v1/nodes", "", ""}, {"/api/v1/pods", "app=web", ""}},
		},
		"a kind in default namespaces": {
			cache.Options{
				DefaultNamespaces: map[string]cache.Config{"shop": {LabelSelector: db}, "bank": {}},
				ByObject:          pods(cache.ByObject{Label: web}),
			},
			[]request{{"/api/v1/namespaces/bank/pods", "app=web", ""}, {"/api/v1/namespaces/shop/pods", "app=db", ""}, {"/api/v1/nodes", "", ""}},
		},
		"to a namespace by a field": {
			cache.Options{ByObject: pods(cache.ByObject{Field: fields.OneTermEqualSelector("metadata.namespace", "shop")})},
			[]request{{"/api/v1/namespaces/shop/pods", "", "metadata.namespace=shop"}, {"/api/v1/nodes", "", ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(r *rig) {
				c := r.running(test.opts)
				require.NoError(r, c.List(r.ctx, &corev1.PodList{}))
				require.NoError(r, c.List(r.ctx, &corev1.NodeList{}))
				require.Equal(r, test.want, r.requests())
			})
		})
	}
}

// A selector that selects nothing has the same text as one that selects everything.
func TestSelectorOfNothingDoesNotSelectEverything(t *testing.T) {
	nothing, err := metav1.LabelSelectorAsSelector(nil)
	require.NoError(t, err)
	pods := func(o cache.ByObject) map[client.Object]cache.ByObject {
		return map[client.Object]cache.ByObject{&corev1.Pod{}: o}
	}
	nothingAndMore := fields.AndSelectors(fields.Nothing(), fields.OneTermEqualSelector("metadata.name", "a"))
	narrow := map[string]cache.Config{"shop": {FieldSelector: fields.Nothing()}}
	for where, opts := range map[string]cache.Options{
		"cache.Options: the selector":                                   {DefaultLabelSelector: nothing},
		"cache.Options: the selector ":                                  {DefaultFieldSelector: fields.Nothing()},
		"cache.Options: the selector matches":                           {DefaultFieldSelector: nothingAndMore},
		`cache.Options: namespace "shop": the selector`:                 {DefaultNamespaces: narrow},
		"cache.Options: ByObject of *v1.Pod: the selector":              {ByObject: pods(cache.ByObject{Label: nothing})},
		"cache.Options: ByObject of *v1.Pod: the selector ":             {ByObject: pods(cache.ByObject{Field: fields.Nothing()})},
		`cache.Options: ByObject of *v1.Pod: namespace "shop": the sel`: {ByObject: pods(cache.ByObject{Namespaces: narrow})},
	} {
		on(t, newCache, func(r *rig) {
			_, err := r.side.newCache(r.cfg, opts)
			require.ErrorContains(r, err, where)
			require.ErrorContains(r, err, "matches nothing")
		})
	}
}

func TestNamespaces(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("bank", "a", "web"), pod("bank", "b", "db"), pod("zoo", "a", "web"))
		r.put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		c := r.cache(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "spec.nodeName", nodeOf))
		r.start(c)
		require.Equal(r, []string{"bank/a", "bank/b", "shop/a"}, r.names(c))
		require.Equal(r, []string{"shop/a"}, r.names(c, client.InNamespace("shop")))
		require.Equal(r, []string{"bank/a", "shop/a"}, r.names(c, client.MatchingFields{"spec.nodeName": "node-web"}))
		require.Len(r, r.names(c, client.Limit(2)), 2)
		require.NoError(r, c.Get(r.ctx, key("bank", "b"), &corev1.Pod{}))
		require.ErrorContains(r, c.Get(r.ctx, key("zoo", "a"), &corev1.Pod{}), "unable to get")
		require.ErrorContains(r, c.List(r.ctx, &corev1.PodList{}, client.InNamespace("zoo")), "unable to list")
		for _, namespace := range []string{"", "shop", "zoo"} {
			require.NoError(r, c.Get(r.ctx, key(namespace, "n"), &corev1.Node{}), "what has no namespace is cached whole")
		}
	})
}

// A caller that changes its map of options afterwards does not affect the cache.
func TestTheNamespacesOfAnObjectAreCopied(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("bank", "b", "web"))
		namespaces := map[string]cache.Config{"shop": {}}
		c := r.cache(cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: namespaces}}})
		clear(namespaces)
		r.start(c)
		require.Equal(r, []string{"shop/a"}, r.names(c))
	})
}

func TestOneNamespaceAndAllOthers(t *testing.T) {
	onAll(t, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("shop", "b", "db"), pod("bank", "a", "web"), pod("bank", "b", "db"))
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{
			"shop": {LabelSelector: labels.SelectorFromSet(labels.Set{"app": "web"})}, cache.AllNamespaces: {},
		}})
		require.Equal(r, []string{"bank/a", "bank/b", "shop/a"}, r.names(c))
		require.Equal(r, []string{"bank/a", "bank/b"}, r.names(c, client.InNamespace("bank")))
		require.NoError(r, c.Get(r.ctx, key("bank", "b"), &corev1.Pod{}))
		require.True(r, apierrors.IsNotFound(c.Get(r.ctx, key("shop", "b"), &corev1.Pod{})))
	})
}

func TestNamespacesOfAClusterScopedKind(t *testing.T) {
	onAll(t, func(r *rig) {
		_, err := r.side.newCache(r.cfg, cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Namespaces: map[string]cache.Config{"shop": {}}},
		}})
		require.ErrorContains(r, err, "not namespaced")
	})
}

// shout is a transform with a visible effect.
func shout(in any) (any, error) {
	o := in.(client.Object)
	o.SetAnnotations(map[string]string{"heard": "!"})
	return o, nil
}

func TestTransforms(t *testing.T) {
	quiet := func(in any) (any, error) { return in, nil }
	for name, test := range map[string]struct {
		opts       cache.Options
		shop, bank string
	}{
		"of all":    {cache.Options{DefaultTransform: shout}, "!", "!"},
		"of a kind": {cache.Options{DefaultTransform: quiet, ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: shout}}}, "!", "!"},
		"of a namespace": {cache.Options{DefaultTransform: shout, DefaultNamespaces: map[string]cache.Config{
			"shop": {Transform: quiet}, "bank": {},
		}}, "", "!"},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(r *rig) {
				r.put(pod("shop", "a", "web"), pod("bank", "a", "web"))
				c := r.running(test.opts)
				read := func(namespace string) string {
					var p corev1.Pod
					require.NoError(r, c.Get(r.ctx, key(namespace, "a"), &p))
					return p.Annotations["heard"]
				}
				require.Equal(r, test.shop, read("shop"))
				require.Equal(r, test.bank, read("bank"))
			})
		})
	}
}

// One of several namespaces is forbidden. Reads in the others do not wait for it, as with stock
// controller-runtime. A namespace that the cache does not watch fails at once.
func TestReadsWaitForTheirOwnNamespace(t *testing.T) {
	onAll(t, func(r *rig) {
		r.srv.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "pods" || a.Namespace != "gone" })
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "gone": {}}})
		in := func(read func(ctx context.Context) error) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
			defer cancel()
			began := time.Now()
			err := read(ctx)
			return time.Since(began), err
		}
		for _, out := range podForms() {
			took, err := in(func(ctx context.Context) error { return c.Get(ctx, key("shop", "a"), out) })
			require.NoError(r, err)
			require.Less(r, took, 10*time.Second)
			took, err = in(func(ctx context.Context) error { return c.Get(ctx, key("gone", "a"), out) })
			require.Error(r, err)
			require.False(r, apierrors.IsNotFound(err), "%v", err)
			require.Positive(r, took)
			took, err = in(func(ctx context.Context) error { return c.Get(ctx, key("bank", "a"), out) })
			require.Error(r, err)
			require.False(r, apierrors.IsNotFound(err), "%v", err)
			require.Zero(r, took)
		}
		list := &corev1.PodList{}
		_, err := in(func(ctx context.Context) error { return c.List(ctx, list, client.InNamespace("shop")) })
		require.NoError(r, err)
		require.Len(r, list.Items, 1)
		_, err = in(func(ctx context.Context) error { return c.List(ctx, list) })
		require.Error(r, err, "it would lack a namespace")
		took, err := in(func(ctx context.Context) error { return c.List(ctx, list, client.InNamespace("bank")) })
		require.Error(r, err)
		require.Zero(r, took)
	})
}

// A read starts the informers of its own namespace only, as with stock controller-runtime, so a namespace
// that nobody reads holds up nothing.
func TestReadsStartOnlyTheirOwnNamespace(t *testing.T) {
	onAll(t, func(r *rig) {
		r.srv.SetAuthorizer(func(a apiservertest.Attributes) bool { return a.Resource != "pods" || a.Namespace == "shop" })
		r.put(pod("shop", "a", "web"))
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		require.Error(r, c.Get(ctx, key("zoo", "a"), &corev1.Pod{}))
		require.Error(r, c.List(ctx, &corev1.PodList{}, client.InNamespace("zoo")))
		require.Error(r, c.Get(ctx, key("", "a"), &corev1.Pod{}))
		require.Empty(r, r.requests(), "the cache does not cover the namespace")
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), &corev1.Pod{}))
		require.Equal(r, []string{"shop/a"}, r.names(c, client.InNamespace("shop")))
		require.Equal(r, []request{{"/api/v1/namespaces/shop/pods", "", ""}}, r.requests())
		require.True(r, c.WaitForCacheSync(ctx))

		r.srv.SetAuthorizer(nil)
		r.put(pod("bank", "a", "web"))
		require.NoError(r, c.IndexField(r.ctx, &corev1.Pod{}, "app", appOf))
		require.Equal(r, []string{"bank/a", "shop/a"}, r.names(c, client.MatchingFields{"app": "web"}))
	})
}

// Metadata is read from whole objects only in namespaces where these are cached.
func TestMetadataStartsOnlyItsOwnNamespace(t *testing.T) {
	on(t, newCache, func(r *rig) {
		r.put(pod("shop", "a", "web"), pod("bank", "a", "web"))
		c := r.running(cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}, "bank": {}}})
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), &corev1.Pod{}))
		meta := podForms()[0]
		require.NoError(r, c.Get(r.ctx, key("shop", "a"), meta))
		require.Equal(r, []request{{"/api/v1/namespaces/shop/pods", "", ""}}, r.requests())
		require.NoError(r, c.Get(r.ctx, key("bank", "a"), meta))
	})
}
