package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Label describes the contents of a snapshot. Labels that differ only in RV, Objects and Written
// describe the same objects in the same form.
type Label struct {
	Server    string     // API server address and a digest of its certificate authority
	Cluster   string     // UID of the kube-system namespace; empty if we are not allowed to read it
	Kind      object.GVK // the objects' kind
	Type      string     // their Go type
	Shape     string     // fingerprint of that type, from wire.TypeFingerprint
	Namespace string     // empty for all
	Scope     string     // restrictions imposed by the source itself; empty for none
	Labels    string     // selector
	Fields    string     // selector
	Keep      string     // the fields that are kept
	Transform string     // name and version of the transform, as set by the user

	RV      string    // all changes up to this version are included
	Objects int       // number of objects
	Written time.Time // when the write started
}

// name returns the file name. Labels in use at the same time have different names.
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

// extension is the file name extension of snapshots.
const extension = ".snapshot"

// differs describes the first difference between l and want, or returns "" if they match. It ignores the
// cluster, which may not be known yet.
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
