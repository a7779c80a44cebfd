package factory

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace-dev/millrace/internal/selector"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// identity identifies an informer: equivalent requests have equal identities.
type identity struct {
	goType     reflect.Type
	kind       object.GVK
	follows    bool   // uses the factory's current namespaces
	namespaces string // used if follows is false
	labels     string
	fields     string
	key        string      // name of the key by which objects are sharded
	share      shard.Share // nil if all objects are wanted
}

// kindless returns an error if the kind of the wanted objects is unknown, in which case waiting would not
// help.
func kindless(client *rest.Client, want want) error {
	if !want.Kind.Empty() || !rest.ResourceForType(client, want.goType, want.Kind).Kind().Empty() {
		return nil
	}
	return fmt.Errorf("%v: requested without a kind, and neither the type nor the client's scheme determines it: set For.Kind, or register the type in the scheme", want.goType)
}

// misuse returns an error if an existing informer cannot satisfy the request.
func misuse(e *entry, want want, id identity) error {
	if !id.follows && textOf(e.informer.Namespaces()) != id.namespaces {
		return fmt.Errorf("%s: requested for the namespaces %q, but the informer has others: change namespaces only with Factory.SetNamespaces", e.informer.Name(), id.namespaces)
	}
	if want.transform != nil {
		return fmt.Errorf("%s: requested with a transform, but the informer already exists: use the transform in the first request only", e.informer.Name())
	}
	if have, wanted := e.keep.String(), want.Keep.String(); have != wanted {
		return fmt.Errorf("%s: requested with Keep %q, but the informer already exists with %q: use the same fields everywhere", e.informer.Name(), wanted, have)
	}
	if want.Store != sharedinformer.DefaultStore && want.Store != e.store {
		return fmt.Errorf("%s: requested with Store %s, but the informer already exists with %s: use the same store everywhere", e.informer.Name(), want.Store, e.store)
	}
	return nil
}

// alone is a share that cannot be compared with others. An informer with such a share fails with an
// error about its options.
type alone struct{ shard.Share }

// nothing represents a selector that matches nothing, whose text form would mean something else.
const nothing = "\x00"

// identify returns the same identity for all equivalent requests. For example, it does not matter whether
// the kind is omitted for a Go type that determines it, or in which order a selector's requirements are
// listed.
func identify(client *rest.Client, want want, namespaces []string, follows bool) identity {
	id := identity{goType: want.goType, kind: want.Kind, follows: follows}
	if !follows {
		id.namespaces = textOf(sharedinformer.NamespaceSet(namespaces))
	}
	if id.kind.Empty() && id.goType.Kind() == reflect.Pointer {
		kinds, _, err := client.Scheme().ObjectKinds(reflect.New(id.goType.Elem()).Interface().(object.Object))
		if err == nil && len(kinds) == 1 {
			id.kind = kinds[0]
		}
	}
	if s := want.Scope.Shard; !s.Everything() {
		if id.key, id.share = s.Key.String(), s.Share; s.Err() != nil {
			id.share = &alone{s.Share}
		}
	}
	if s := want.Scope.Labels; s != nil {
		if id.labels = s.String(); selector.NoLabels(s) {
			id.labels = nothing
		}
	}
	if s := want.Scope.Fields; selector.NoFields(s) {
		id.fields = nothing
	} else if s != nil {
		var parts []string
		for _, r := range want.Scope.Fields.Requirements() {
			parts = append(parts, r.Field+string(r.Operator)+fields.EscapeValue(r.Value))
		}
		slices.Sort(parts)
		id.fields = strings.Join(parts, ",")
	}
	return id
}

// textOf formats a set of namespaces. The empty set and the set of all namespaces have different texts.
func textOf(namespaces []string) string {
	if len(namespaces) == 0 {
		return nothing
	}
	return strings.Join(namespaces, ",")
}
