package discovery

import (
	"context"

	"github.com/millrace-dev/millrace/object"
)

// Mapping says where a kind is served.
type Mapping struct {
	Kind       object.GVK
	Resource   object.GVR
	Namespaced bool
	Singular   string
	ShortNames []string
	Categories []string
	Verbs      []string // the verbs of the resource itself, such as "list" and "watch"

	// Subresources names what is served below an object of the resource, such
	// as "status" and "scale".
	Subresources []string
}

// Get is what discovery needs of a client: one GET of an absolute path, with an
// Accept header. It may be called by several goroutines at a time.
type Get func(ctx context.Context, path, accept string) (body []byte, contentType string, err error)
