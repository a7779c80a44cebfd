package rest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

// RESTMapper returns m as apimachinery's interface, for code that wants that:
// its methods take no context, so ctx bounds every call. Its Reset method
// (meta.ResettableRESTMapper) is Invalidate.
func (m *Mapper) RESTMapper(ctx context.Context) meta.RESTMapper {
	return restMapper{ctx: ctx, mapper: m}
}

// restMapper keeps a context because the interface has no place for one.
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

// RESTMapping returns the mapping of the first of the versions that is served,
// or of the preferred version where none is given.
func (r restMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	var missed error
	for _, version := range wanted(versions) {
		mapping, err := r.mapper.MappingForKind(r.ctx, gk.WithVersion(version))
		if err == nil {
			return restMapping(&mapping), nil
		}
		if !meta.IsNoMatchError(err) {
			return nil, err
		}
		missed = err
	}
	return nil, missed
}

// RESTMappings returns the mappings of the versions that are served, or of all
// versions where none is given.
func (r restMapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	var mappings []*meta.RESTMapping
	var missed error
	for _, version := range wanted(versions) {
		found, err := r.mapper.find(r.ctx, question{kind: gk.WithVersion(version)})
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, err
		}
		missed = err
		for _, mapping := range found {
			mappings = append(mappings, restMapping(mapping))
		}
	}
	if len(mappings) == 0 {
		return nil, missed
	}
	return mappings, nil
}

func (r restMapper) ResourceSingularizer(resource string) (string, error) {
	mapping, err := r.mapper.MappingForResource(r.ctx, object.GVR{Resource: resource})
	if err != nil {
		return resource, err
	}
	if mapping.Singular == "" {
		return resource, fmt.Errorf("the server gives no singular of %s", object.ResourceName(mapping.Resource))
	}
	return mapping.Singular, nil
}

// wanted leaves out what is no version of a served API. With nothing left, it
// is the empty version, which stands for any.
func wanted(versions []string) []string {
	served := slices.DeleteFunc(slices.Clone(versions), func(version string) bool {
		return version == "" || version == runtime.APIVersionInternal
	})
	if len(served) == 0 {
		return []string{""}
	}
	return served
}

// external takes the internal version for any version, as apimachinery's own
// mappers do.
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
