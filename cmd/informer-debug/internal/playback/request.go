package playback

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/wire"
)

// together is how close in time informers must have ended to be treated as having ended together, for example
// when their process exited.
const together = time.Second

// Recorded returns the first request of each wanted informer, and the names of all informers. If a process
// had several informers with the same scope, it picks the one that ended last or, if they ended together, the
// one that started first, because the others did not receive anything more.
func Recorded(file *recording.File, wanted func(*recording.Request) bool) (found []*recording.Request, has []string, err error) {
	begun, ended := map[recorded]bool{}, map[recorded]time.Duration{}
	for _, q := range file.Requests {
		end := q.Ended
		if !q.Whole {
			end = file.Duration // still in progress
		}
		ended[recordedOf(q)] = max(ended[recordedOf(q)], end)
	}
	for _, q := range file.Requests {
		one := recordedOf(q)
		if !slices.Contains(has, one.name) {
			has = append(has, one.name)
		}
		if begun[one] || !wanted(q) {
			continue
		}
		begun[one] = true
		at := slices.IndexFunc(found, func(o *recording.Request) bool { return InformerOf(o) == one.name })
		switch {
		case at < 0:
			found = append(found, q)
		case q.Informer == 0:
		case found[at].Informer == 0, // and q definitely comes from an informer
			ended[one] > ended[recordedOf(found[at])]+together:
			found[at] = q
		}
	}
	slices.Sort(has) // informers that started together are in arbitrary order
	switch {
	case len(has) == 0 && file.LeftOut.Requests > 0:
		return nil, nil, &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("%s has no requests left: all %d, with %s, were dropped to limit its size", file.Path, file.LeftOut.Requests, terminal.Bytes(file.LeftOut.Bytes)), Hint: "record again with a larger --max-size, or the recorder's option MaxSize"}
	case len(has) == 0:
		return nil, nil, &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("%s has no requests: nothing was received during the recording", file.Path)}
	case len(found) == 0:
		return nil, nil, exit.Usage("%s has no such informer; available: %s", file.Path, strings.Join(has, "; "))
	}
	return found, has, nil
}

// recorded identifies an informer in a recording.
type recorded struct {
	name   string
	number uint64
}

func recordedOf(q *recording.Request) recorded { return recorded{InformerOf(q), q.Informer} }

// Only returns a filter that accepts all requests from the informers that sent the requests in first.
func Only(first ...*recording.Request) func(*recording.Request) bool {
	played := map[recorded]bool{}
	for _, q := range first {
		played[recordedOf(q)] = true
	}
	return func(q *recording.Request) bool { return played[recordedOf(q)] }
}

// Protobuf reports whether the informer that sent a request received protobuf, perhaps after errors in other
// formats.
func Protobuf(file *recording.File, q *recording.Request) bool {
	of := Only(q)
	return slices.ContainsFunc(file.Requests, func(o *recording.Request) bool {
		return of(o) && strings.Contains(o.Answer.ContentType, wire.MediaProtobuf)
	})
}

// IsOf reports whether a TYPE refers to a resource. Recordings do not contain discovery, so only built-in
// types can be specified by names other than the plural.
func IsOf(gvr, arg object.GVR) bool {
	called := gvr.Resource == arg.Resource
	for _, r := range apiservertest.Builtin() {
		if r.Group == gvr.Group && r.Resource == gvr.Resource {
			kind := strings.ToLower(r.Kind)
			called = called || arg.Resource == kind || slices.Contains(r.ShortNames, arg.Resource)
		}
	}
	return called && (arg.Group == "" || arg.Group == gvr.Group) && (arg.Version == "" || arg.Version == gvr.Version)
}

// InformerOf returns a name for the informer that sent a request.
func InformerOf(q *recording.Request) string {
	text := object.ResourceName(q.Resource())
	if n := q.Namespace(); n != "" {
		text += " -n " + n
	}
	byLabels, byFields := q.Selectors()
	if byLabels != "" {
		text += " -l " + byLabels
	}
	if byFields != "" {
		text += " --field-selector " + byFields
	}
	if q.MetadataOnly() {
		text += " --metadata-only"
	}
	return text
}

// Selectors parses a request's selectors.
func Selectors(q *recording.Request) (labels.Selector, fields.Selector, error) {
	byLabels, byFields := q.Selectors()
	l, err := labels.Parse(byLabels)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	f, err := fields.ParseSelector(byFields)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	return l, f, nil
}
