// Package ownership says which manager owns which field of an object, and merges
// what is applied: the part of server-side apply (KEP-555) that comes before the
// object is stored.
//
// # Usage
//
//	types, err := ownership.NewTypes()
//	m, err := ownership.New(types, ownership.Options{Kind: gvk, New: newPod})
//	obj, err = m.Update(live, obj, "kubectl-edit")       // obj.managedFields says what changed hands
//	obj, err = m.Apply(live, patch, "my-controller", false) // merged; 409 where another manager owns a field
//
// The merge and the bookkeeping are those of the real server: packages
// apimachinery/util/managedfields and structured-merge-diff. What is added here
// are the rules of merging: the real server reads them from its OpenAPI
// documents, this package from the Go types and rules.json, which is made from
// those documents.
//
// # Concurrency
//
// All methods may be called concurrently. Types are made when they are first
// asked for and kept.
//
// # Failure
//
// Apply fails with a *StatusError of code 409 that has a cause for each field
// which another manager owns, with code 400 for a patch of another kind or
// version, and with a plain error where the patch cannot be read as the type.
package ownership
