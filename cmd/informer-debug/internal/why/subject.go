package why

import (
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/object"
)

// subject identifies the object in question.
type subject struct {
	types string // TYPE; empty for any
	key   object.Key

	// either is set if the argument was A/B, in which case types may actually be the namespace.
	either bool
}

// subjectOf parses [TYPE/]NAME or TYPE NAME. NAME may be NAMESPACE/NAME, as printed in our output.
func subjectOf(args []string, namespace string) (subject, error) {
	types, name, named := attach.CutName(args[0])
	twice := named && len(args) == 2
	switch {
	case len(args) == 2: // as in kubectl
		name = args[1]
	case !named:
		types, name = "", args[0]
	}
	q := subject{types: types, key: object.Key{Namespace: namespace, Name: name}}
	q.either = named && !strings.Contains(name, "/") && (namespace == "" || namespace == types)
	if in, rest, found := strings.Cut(name, "/"); found {
		if namespace != "" && namespace != in {
			return q, exit.Usage("%q is in namespace %s, but -n is %s: omit one", name, in, namespace)
		}
		q.key = object.Key{Namespace: in, Name: rest}
		twice = twice || in == ""
	}
	if twice || named && types == "" || q.key.Name == "" || strings.ContainsAny(q.key.Name, "/ ") {
		return q, exit.Usage("%q: want [TYPE/]NAME, TYPE NAME or NAMESPACE/NAME", strings.Join(args, " "))
	}
	return q, nil
}

// asKey reinterprets TYPE as the namespace.
func (q *subject) asKey() { *q = subject{key: object.Key{Namespace: q.types, Name: q.key.Name}} }

// String returns TYPE/NAME as given, or the key.
func (q *subject) String() string {
	if q.types == "" {
		return object.FormatKey(q.key)
	}
	return q.types + "/" + q.key.Name
}
