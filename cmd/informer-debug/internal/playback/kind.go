package playback

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Mapping returns the resource and kind of a request. Kinds that are not built in are looked up in the
// recorded objects.
func Mapping(file *recording.File, q *recording.Request) (discovery.Mapping, error) {
	gvr := q.Resource()
	m := discovery.Mapping{Resource: gvr, Namespaced: q.Namespace() != ""}
	for kind := range scheme.New().KnownTypes(gvr.GroupVersion()) {
		if known, ok := discovery.Builtin(gvr.GroupVersion().WithKind(kind)); ok && known.Resource == gvr {
			return known, nil
		}
	}
	for _, other := range file.Requests {
		if InformerOf(other) != InformerOf(q) {
			continue
		}
		if kind := kindIn(file.Body(other)); kind != "" {
			m.Kind = gvr.GroupVersion().WithKind(kind)
			return m, nil
		}
	}
	return m, fmt.Errorf("%s: the kind of %s is unknown: no such object was received as JSON", file.Path, object.ResourceName(gvr))
}

// kindIn returns the kind of the objects in a JSON list or watch, or "" if there are none.
func kindIn(body io.Reader) string {
	in := json.NewDecoder(body)
	var at []string // keys leading to the current position; "" for a list item
	key := true     // whether the next string is a key
	for {
		token, err := in.Token()
		if err != nil {
			return ""
		}
		inside := len(at) > 0 && at[len(at)-1] != ""
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				at, key = append(at, "."), true
				continue
			case '[':
				at, key = append(at, ""), false
				continue
			}
			at = at[:len(at)-1]
			inside = len(at) > 0 && at[len(at)-1] != ""
		case string:
			if inside && key {
				at[len(at)-1], key = "."+t, false
				continue
			}
			switch strings.Join(at, "") {
			case ".kind":
				if of, ok := strings.CutSuffix(t, "List"); ok && of != "" {
					return of
				}
			case ".object.kind", ".items.kind":
				if t != "Status" {
					return t
				}
			}
		}
		key = inside
	}
}
