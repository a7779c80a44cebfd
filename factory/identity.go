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

// identity is what makes two requests mean the same informer.
type identity struct {
	goType     reflect.Type
	kind       object.GVK
	follows    bool   // the namespaces are the factory's, whatever these are
	namespaces string // otherwise
	labels     string
	fields     string
	key        string      // by which objects are divided
	share      shard.Share // nil where all are wanted
}

// kindless says what to do where the kind of what is wanted is not known. Waiting
// would not change that.
func kindless(client *rest.Client, want want) error {
	if !want.Kind.Empty() || !rest.ResourceForType(client, want.goType, want.Kind).Kind().Empty() {
		return nil
	}
	return fmt.Errorf("%v: asked for without a kind, which neither the type nor the client's scheme tells: say it in For.Kind, or register the type in the scheme", want.goType)
}

// misuse says what cannot be had of an informer that exists.
func misuse(e *entry, want want, id identity) error {
	if !id.follows && textOf(e.informer.Namespaces()) != id.namespaces {
		return fmt.Errorf("%s: asked for in the namespaces %q, but the informer was given others: change namespaces with Factory.SetNamespaces only", e.informer.Name(), id.namespaces)
	}
	if want.transform != nil {
		return fmt.Errorf("%s: asked for with a transform, but the informer exists already: ask with the transform first, and without it everywhere else", e.informer.Name())
	}
	if have, wanted := e.keep.String(), want.Keep.String(); have != wanted {
		return fmt.Errorf("%s: asked for with Keep %q, but the informer exists already with %q: ask for the same fields everywhere", e.informer.Name(), wanted, have)
	}
	if want.Store != sharedinformer.DefaultStore && want.Store != e.store {
		return fmt.Errorf("%s: asked for with Store %s, but the informer exists already with %s: ask for the same store everywhere", e.informer.Name(), want.Store, e.store)
	}
	return nil
}

// alone is a share that cannot be compared with others. An informer that has one fails with its options.
type alone struct{ shard.Share }

// nothing stands for a selector that selects nothing, whose text is that of more.
const nothing = "\x00"

// identify returns the same identity for all requests that mean the same: the kind of
// a Go type may be given or not, and selectors may be written in any order.
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

// textOf writes a set of namespaces, so that none is not all.
func textOf(namespaces []string) string {
	if len(namespaces) == 0 {
		return nothing
	}
	return strings.Join(namespaces, ",")
}
