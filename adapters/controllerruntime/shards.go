package controllerruntime

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/wire"
)

// shards maps kinds to this process's share of them. Kinds not in the map are not sharded. All
// versions and Go types of a kind share one scope, because they represent the same objects.
type shards map[schema.GroupKind]shard.Scope

// newShards validates Options.Shards. Every error includes the kind.
func newShards(of map[client.Object]shard.Scope, opts cache.Options, with configs, keep wire.Fields) (shards, error) {
	all := make(shards, len(of))
	for obj, scope := range of {
		gvk, err := apiutil.GVKForObject(obj, opts.Scheme)
		if err != nil {
			return nil, fmt.Errorf("Options.Shards: %T: %w", obj, err)
		}
		m, err := opts.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("Options.Shards: %v: %w", gvk, err)
		}
		if _, twice := all[gvk.GroupKind()]; twice {
			return nil, fmt.Errorf("Options.Shards: %v appears twice: list each kind once, for all its versions and Go types", gvk.GroupKind())
		}
		if err := unfit(scope, with.of(gvk, m.Scope.Name() == meta.RESTScopeNameNamespace), keep); err != nil {
			return nil, fmt.Errorf("Options.Shards: %v: %w", gvk, err)
		}
		if group, ok := scope.Share.(*Group); ok {
			scope.Share = group.Group // so that it equals the scope returned by Group.Shard
		}
		all[gvk.GroupKind()] = scope
	}
	return all, nil
}

// unfit returns an error explaining why a kind cannot have a scope, or nil if it can.
func unfit(scope shard.Scope, configs map[string]cache.Config, keep wire.Fields) error {
	if v := reflect.ValueOf(scope.Share); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("the share is a nil %T: omit Scope.Share to hold all objects", scope.Share)
	}
	if err := scope.Err(); err != nil || scope.Everything() || scope.Key.Fixed() {
		return err
	}
	for _, config := range configs {
		if config.Transform != nil {
			return fmt.Errorf("its objects go through a transform, which might change what %s reads: shard them by UID or namespace, or remove the transform", scope.Key)
		}
	}
	for _, field := range scope.Key.Fields() {
		if !keep.KeepsAll(field) {
			return fmt.Errorf("sharding by %s needs %s, which Options.Keep drops: keep it, or shard by UID or namespace", scope.Key, field)
		}
	}
	return nil
}

// holds reports whether the running informers for a kind hold the slot of the given hash, as far as they concern an
// object's namespace.
func (k *kind) holds(hash uint64, namespace string) bool {
	covering, covered := k.covering(namespace)
	for _, name := range k.needed() {
		if namespace != "" && (!covered || name != covering) {
			continue
		}
		if h, ok := clientgo.HoldingOf(k.scopes[name].informer); !ok || !h.Holds(hash) {
			return false
		}
	}
	return true
}
