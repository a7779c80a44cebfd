// Package discovery determines which kinds an API server serves, and where.
//
// # Usage
//
//	mapper := client.Mapper() // of a rest.Client
//	m, err := mapper.MappingForKind(ctx, object.GVK{Group: "apps", Version: "v1", Kind: "Deployment"})
//	m, err = mapper.MappingForResource(ctx, object.GVR{Resource: "deploy"}) // interpreted as in kubectl
//	all, err := mapper.Mappings(ctx)
//
// [Mapper.RESTMapper] adapts a Mapper to apimachinery's interface.
//
// [Builtin] returns the locations of built-in kinds without a request; a rest.Resource tries it first.
//
// # Guarantees
//
//   - Known kinds are looked up without a request. For an unknown kind, the mapper asks the server again,
//     so it finds CRDs that are installed later.
//   - Concurrent callers share a discovery run. Runs are at least a second apart and
//     take at most 30 seconds.
//   - If one part of the API does not respond, the others are still discovered, and the kinds already known
//     in that part remain known.
//
// # Concurrency
//
// A Mapper is safe for concurrent use. It starts no goroutines that outlive a call.
//
// # Failure
//
// A [*NoMatchError] means that the server does not serve a kind or resource, and
// suggests similar ones. An [*AmbiguousError] means that a name matches several
// resources. An [*Error] lists the parts of the API that could not be discovered.
// Apimachinery's meta.IsNoMatchError and meta.IsAmbiguousError recognize the first two.
//
// # Debugging
//
// The mapper logs one line per run at debug level, and a warning whenever the set of parts that cannot be
// discovered changes.
package discovery
