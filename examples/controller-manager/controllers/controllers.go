// Package controllers lists the controllers in examples/controller-manager.
package controllers

import (
	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/deployment"
	"github.com/millrace-dev/millrace/examples/controller-manager/garbage"
	"github.com/millrace-dev/millrace/examples/controller-manager/replicaset"
)

// Registry returns the controllers.
func Registry() (*controllermanager.Registry, error) {
	return controllermanager.NewRegistry(append(garbage.Descriptors(), replicaset.Descriptor(), deployment.Descriptor())...)
}
