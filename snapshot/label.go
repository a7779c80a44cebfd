package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Label says what a snapshot is of. Two that agree in all but the version, the number and the
// time are of the same objects in the same form.
type Label struct {
	Server    string     // address of the API server, and a digest of its certificate authority
	Cluster   string     // UID of the namespace kube-system; empty where it may not be read
	Kind      object.GVK // of the objects
	Type      string     // their Go type
	Shape     string     // of that type, as wire.TypeFingerprint tells it
	Namespace string     // empty for all
	Scope     string     // what the source itself is narrowed to; empty for nothing
	Labels    string     // selector
	Fields    string     // selector
	Keep      string     // fields that the objects have
	Transform string     // what they have gone through, by the name and version that its user gave it

	RV      string    // the objects are complete up to here
	Objects int       // how many there are
	Written time.Time // when the writing began
}

// name is that of the file. Labels that are wanted at the same time have different names.
func (l *Label) name() string {
	hash := sha256.New()
	for _, part := range []string{l.Server, l.Kind.Group, l.Kind.Version, l.Kind.Kind, l.Type, l.Namespace, l.Scope, l.Labels, l.Fields, l.Keep, l.Transform} {
		fmt.Fprintf(hash, "%q ", part)
	}
	kind := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(l.Kind.GroupKind().String()))
	return fmt.Sprintf("%.80s-%s%s", kind, hex.EncodeToString(hash.Sum(nil)[:8]), extension)
}

// extension is that of all snapshots.
const extension = ".snapshot"

// differs says in what l is not what is wanted; empty where it is. Of the cluster it says
// nothing, which may not be known yet.
func (l *Label) differs(want *Label) string {
	for _, part := range []struct{ what, have, want string }{
		{"server", l.Server, want.Server},
		{"kind", l.Kind.String(), want.Kind.String()},
		{"Go type", l.Type, want.Type},
		{"namespace", l.Namespace, want.Namespace},
		{"scope", l.Scope, want.Scope},
		{"label selector", l.Labels, want.Labels},
		{"field selector", l.Fields, want.Fields},
		{"fields", l.Keep, want.Keep},
		{"transform", l.Transform, want.Transform},
		{"version of the Go type", l.Shape, want.Shape},
	} {
		if part.have != part.want {
			return fmt.Sprintf("its %s is %.200q, want %.200q", part.what, part.have, part.want)
		}
	}
	return ""
}
