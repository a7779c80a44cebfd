// Package ownership tracks which manager owns which field of an object and merges applied objects, as
// server-side apply (KEP-555) does before storing an object.
//
// # Usage
//
//	types := ownership.NewTypes()
//	m, err := ownership.New(types, ownership.Options{Kind: gvk, New: newPod})
//	obj, err = m.Update(live, obj, "kubectl-edit")       // updates obj.managedFields
//	obj, err = m.Apply(live, patch, "my-controller", false) // merged; 409 if another manager owns a field
//
// The merging and bookkeeping is left to package apimachinery/util/managedfields, as in the real server. This
// package adds the merge rules, as OpenAPI schemas. The real server reads them from its OpenAPI documents; this
// package takes them from the Go types and from rules.json, which is generated from those documents.
//
// # Concurrency
//
// All methods are safe for concurrent use. Types are built on first use and cached.
//
// # Failure
//
// Apply returns a *StatusError with code 409 and a cause for each field owned by another manager, or with
// code 400 if the patch has a different kind or version. It returns a plain error if the patch does not
// match the type.
package ownership
