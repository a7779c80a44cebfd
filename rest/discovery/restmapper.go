package discovery

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

// RESTMapper adapts m to apimachinery's interface. Its methods take no context, so ctx
// applies to all calls. Its Reset method (meta.ResettableRESTMapper) is
// [Mapper.Invalidate].
func (m *Mapper) RESTMapper(ctx context.Context) meta.RESTMapper {
	return restMapper{ctx: ctx, mapper: m}
}

// restMapper stores a context because the interface's methods take none.
type restMapper struct {
	ctx    context.Context
	mapper *Mapper
}

var _ meta.ResettableRESTMapper = restMapper{}

func (r restMapper) Reset() { r.mapper.Invalidate() }

func (r restMapper) KindFor(gvr object.GVR) (object.GVK, error) {
	mapping, err := r.mapper.MappingForResource(r.ctx, external(gvr))
	return mapping.Kind, err
}

func (r restMapper) ResourceFor(gvr object.GVR) (object.GVR, error) {
	mapping, err := r.mapper.MappingForResource(r.ctx, external(gvr))
	return mapping.Resource, err
}

func (r restMapper) KindsFor(gvr object.GVR) ([]object.GVK, error) {
	found, err := r.mapper.find(r.ctx, question{resource: external(gvr)})
	var kinds []object.GVK
	for _, mapping := range found {
		if !slices.Contains(kinds, mapping.Kind) {
			kinds = append(kinds, mapping.Kind)
		}
	}
	return kinds, err
}

func (r restMapper) ResourcesFor(gvr object.GVR) ([]object.GVR, error) {
	found, err := r.mapper.find(r.ctx, question{resource: external(gvr)})
	var resources []object.GVR
	for _, mapping := range found {
		resources = append(resources, mapping.Resource)
	}
	return resources, err
}

// RESTMapping returns the mapping for the first version that is served. Without versions, it
// returns the preferred version's mapping.
func (r restMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, err := r.find(gk, versions)
	if err != nil {
		return nil, err
	}
	mapping, err := pick(question{kind: gk.WithVersion("")}, found)
	if err != nil {
		return nil, err
	}
	return restMapping(&mapping), nil
}

// RESTMappings returns the mappings of those versions that are served, in the given order. Without
// versions, it returns the mappings of all served versions.
func (r restMapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := r.find(gk, versions)
	if err != nil {
		return nil, err
	}
	mappings := make([]*meta.RESTMapping, len(found))
	for i, mapping := range found {
		mappings[i] = restMapping(mapping)
	}
	return mappings, nil
}

// find returns at least one mapping of a kind, for those of the given versions that are served, in order.
// If one of the versions is already known, it does not ask the server about the others.
func (r restMapper) find(gk schema.GroupKind, versions []string) ([]*Mapping, error) {
	all, err := r.mapper.find(r.ctx, question{kind: gk.WithVersion("")})
	versions = slices.DeleteFunc(slices.Clone(versions), func(version string) bool {
		return version == "" || version == runtime.APIVersionInternal
	})
	if err != nil || len(versions) == 0 {
		return all, err
	}
	var found []*Mapping
	for _, version := range versions {
		for _, mapping := range all {
			if mapping.Kind.Version == version {
				found = append(found, mapping)
			}
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	for _, version := range versions {
		found, err = r.mapper.find(r.ctx, question{kind: gk.WithVersion(version)})
		if !meta.IsNoMatchError(err) {
			break
		}
	}
	return found, err
}

func (r restMapper) ResourceSingularizer(resource string) (string, error) {
	mapping, err := r.mapper.MappingForResource(r.ctx, object.GVR{Resource: resource})
	if err != nil {
		return resource, err
	}
	if mapping.Singular == "" {
		return resource, fmt.Errorf("the server reports no singular for %s", object.ResourceName(mapping.Resource))
	}
	return mapping.Singular, nil
}

// external replaces the internal version with the empty version, as apimachinery's mappers do.
func external(gvr object.GVR) object.GVR {
	if gvr.Version == runtime.APIVersionInternal {
		gvr.Version = ""
	}
	return gvr
}

func restMapping(m *Mapping) *meta.RESTMapping {
	scope := meta.RESTScope(meta.RESTScopeRoot)
	if m.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{Resource: m.Resource, GroupVersionKind: m.Kind, Scope: scope}
}
