package controllerruntime

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/millrace-dev/millrace/internal/selector"
)

// configs holds the cache settings for each kind.
type configs struct {
	byKind      map[schema.GroupVersionKind]cache.ByObject
	byNamespace map[string]cache.Config // for kinds without namespaces that are listed in byKind
	defaults    cache.Config
}

func newConfigs(opts cache.Options) (configs, error) {
	c := configs{
		byKind:      make(map[schema.GroupVersionKind]cache.ByObject, len(opts.ByObject)),
		byNamespace: maps.Clone(opts.DefaultNamespaces),
		defaults: cache.Config{
			LabelSelector:         opts.DefaultLabelSelector,
			FieldSelector:         opts.DefaultFieldSelector,
			Transform:             opts.DefaultTransform,
			UnsafeDisableDeepCopy: opts.DefaultUnsafeDisableDeepCopy,
			EnableWatchBookmarks:  opts.DefaultEnableWatchBookmarks,
			SyncPeriod:            opts.SyncPeriod,
		},
	}
	if err := selective("cache.Options", c.defaults.LabelSelector, c.defaults.FieldSelector, c.byNamespace); err != nil {
		return c, err
	}
	for obj, own := range opts.ByObject {
		if err := selective(fmt.Sprintf("cache.Options: ByObject of %T", obj), own.Label, own.Field, own.Namespaces); err != nil {
			return c, err
		}
		namespaced, err := apiutil.IsObjectNamespaced(obj, opts.Scheme, opts.Mapper)
		if err != nil {
			return c, fmt.Errorf("find out whether %T is namespaced: %w", obj, err)
		}
		if !namespaced && own.Namespaces != nil {
			return c, fmt.Errorf("%T is not namespaced: leave ByObject.Namespaces nil", obj)
		}
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			return c, err
		}
		own.Namespaces = maps.Clone(own.Namespaces)
		c.byKind[gvk] = own
	}
	return c, nil
}

// selective returns an error if an option's selector, or one of its namespaces' selectors, matches nothing.
// The server would receive such a selector as text, and that text does match something.
func selective(option string, byLabel labels.Selector, byField fields.Selector, namespaces map[string]cache.Config) error {
	if selector.NoLabels(byLabel) || selector.NoFields(byField) {
		return fmt.Errorf("%s: the selector matches nothing, but a server would take it for one that matches more: remove it, and do not read the kind", option)
	}
	for namespace, config := range namespaces {
		if err := selective(fmt.Sprintf("%s: namespace %q", option, namespace), config.LabelSelector, config.FieldSelector, nil); err != nil {
			return err
		}
	}
	return nil
}

// of returns the configuration for each namespace in which objects of a kind are cached. The empty
// namespace stands for all namespaces, or for all that are not listed.
//
// Unset fields come from the kind, then from DefaultNamespaces, then from the general defaults.
func (c *configs) of(gvk schema.GroupVersionKind, namespaced bool) map[string]cache.Config {
	kind := c.byKind[gvk]
	own := cache.Config{
		LabelSelector:         kind.Label,
		FieldSelector:         kind.Field,
		Transform:             kind.Transform,
		UnsafeDisableDeepCopy: kind.UnsafeDisableDeepCopy,
		EnableWatchBookmarks:  kind.EnableWatchBookmarks,
		SyncPeriod:            kind.SyncPeriod,
	}
	namespaces := kind.Namespaces
	if namespaces == nil {
		namespaces = c.byNamespace
	}
	if !namespaced || len(namespaces) == 0 {
		return map[string]cache.Config{metav1.NamespaceAll: filled(own, c.defaults)}
	}
	all := make(map[string]cache.Config, len(namespaces))
	for namespace, config := range namespaces {
		config = filled(filled(filled(config, own), c.byNamespace[namespace]), c.defaults)
		if namespace == metav1.NamespaceAll {
			config.FieldSelector = outside(namespaces, config.FieldSelector)
		}
		all[namespace] = config
	}
	return all
}

// filled returns config with unset fields filled in from another config.
func filled(config, from cache.Config) cache.Config {
	if config.LabelSelector == nil {
		config.LabelSelector = from.LabelSelector
	}
	if config.FieldSelector == nil {
		config.FieldSelector = from.FieldSelector
	}
	if config.Transform == nil {
		config.Transform = from.Transform
	}
	if config.UnsafeDisableDeepCopy == nil {
		config.UnsafeDisableDeepCopy = from.UnsafeDisableDeepCopy
	}
	if config.EnableWatchBookmarks == nil {
		config.EnableWatchBookmarks = from.EnableWatchBookmarks
	}
	if config.SyncPeriod == nil {
		config.SyncPeriod = from.SyncPeriod
	}
	return config
}

// outside extends a selector, which may be nil, to exclude objects in any of the namespaces.
func outside(namespaces map[string]cache.Config, selector fields.Selector) fields.Selector {
	var terms []fields.Selector
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if namespace != metav1.NamespaceAll {
			terms = append(terms, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
		}
	}
	if selector != nil {
		terms = append(terms, selector)
	}
	return fields.AndSelectors(terms...)
}
