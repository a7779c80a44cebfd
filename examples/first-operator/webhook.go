package main

import (
	"context"
	"fmt"

	"example.com/sandbox/api/v1"
	"github.com/millrace-dev/millrace/webhook"
)

// validate lets users create sandboxes only for themselves, because a sandbox grants rights to its owner in
// a namespace whose name the creator has chosen.
func validate(_ context.Context, r *webhook.Request[*v1.Sandbox]) error {
	if who, owner := r.UserInfo.Username, r.Object.Spec.Owner; who != owner {
		return fmt.Errorf("spec.owner: you are %q and cannot create a sandbox for %q", who, owner)
	}
	return nil
}
