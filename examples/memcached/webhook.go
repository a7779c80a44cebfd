package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	v1 "github.com/millrace-dev/millrace/examples/memcached/api/v1"
	"github.com/millrace-dev/millrace/webhook"
)

// validate rejects what the schema in crd.yaml cannot: images without a version, and changes that would
// lose most of the cache at once.
func validate(_ context.Context, r *webhook.Request[*v1.Memcached]) error {
	if r.Object.DeletionTimestamp != nil {
		return nil // allow the finalizer to be removed
	}
	if _, version, _ := strings.Cut(path.Base(r.Object.Spec.Image), ":"); version == "" || version == "latest" {
		return fmt.Errorf("spec.image: %q has no version: use one such as memcached:1.6", r.Object.Spec.Image)
	}
	if r.OldObject != nil && r.Object.Spec.Size < r.OldObject.Spec.Size/2 {
		return fmt.Errorf("spec.size: scaling from %d to %d nodes loses most of the cached data: go down by half at most", r.OldObject.Spec.Size, r.Object.Spec.Size)
	}
	return nil
}
