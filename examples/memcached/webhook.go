package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/webhook"
)

// validate refuses what the schema in crd.yaml cannot: an image without a version,
// and to lose most of what is cached at one stroke.
func validate(_ context.Context, r *webhook.Request[*v1.Memcached]) error {
	if r.Object.DeletionTimestamp != nil {
		return nil // whatever it is, its finalizer may be removed
	}
	if _, version, _ := strings.Cut(path.Base(r.Object.Spec.Image), ":"); version == "" || version == "latest" {
		return fmt.Errorf("spec.image: %q does not say which version: use one such as memcached:1.6", r.Object.Spec.Image)
	}
	if r.OldObject != nil && r.Object.Spec.Size < r.OldObject.Spec.Size/2 {
		return fmt.Errorf("spec.size: from %d to %d nodes most of what is cached is lost: go down by half at most", r.OldObject.Spec.Size, r.Object.Spec.Size)
	}
	return nil
}
