// Package discovery finds out which kinds an API server serves, and where.
//
// # Usage
//
//	mapper := client.Mapper() // of a rest.Client
//	m, err := mapper.MappingForKind(ctx, object.GVK{Group: "apps", Version: "v1", Kind: "Deployment"})
//	m, err = mapper.MappingForResource(ctx, object.GVR{Resource: "deploy"}) // as kubectl reads it
//	all, err := mapper.Mappings(ctx)
//
// RESTMapper makes it apimachinery's interface.
//
// Builtin knows the places of the built-in kinds without asking; a rest.Resource
// looks there first.
//
// # Guarantees
//
//   - What is known answers without a request. What is not makes the mapper ask
//     again, so that a custom resource definition that is installed later is found.
//   - Callers share a run of discovery, and runs are at least a second apart. A run
//     takes 30 seconds at most.
//   - A part of the API that does not answer hides nothing else, and does not make
//     its kinds unknown.
//
// # Concurrency
//
// A Mapper may be used from many goroutines. It starts none that outlives a call.
//
// # Failure
//
// A *NoMatchError says that the server does not serve something, and names what is
// alike; an *AmbiguousError that a name means several resources; an *Error which
// parts of the API could not be discovered. meta.IsNoMatchError and
// meta.IsAmbiguousError of apimachinery hold for the first two.
//
// # Debugging
//
// The logger hears of each run at level debug, and of parts that cannot be
// discovered at level warn when they change.
package discovery
