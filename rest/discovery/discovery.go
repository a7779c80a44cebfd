package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/source"
)

// The two root documents: the core group and the named groups.
const (
	coreRoot   = "/api"
	groupsRoot = "/apis"
)

// Error lists the parts of the server's API that could not be discovered, usually because an APIService's
// backend is down. Discovery of all other parts succeeded.
type Error struct {
	Failures []Failure // at least one
}

// Failure is a part of the API that could not be discovered.
type Failure struct {
	// Path is the path of the document that failed, such as "/apis/metrics.k8s.io/v1beta1". It is
	// "/api" or "/apis" if the core group or all named groups failed.
	Path string

	// GroupVersion is the document's group version; empty for "/api" and "/apis".
	GroupVersion schema.GroupVersion

	// Err is the reason: the server's Status, or a transport or decoding error.
	Err error
}

// String formats the part and the reason.
func (f Failure) String() string { return fmt.Sprintf("%s: %v", f.name(), f.Err) }

func (f Failure) name() string {
	if f.GroupVersion.Empty() {
		return f.Path
	}
	return f.GroupVersion.String()
}

// covers reports whether resources in a group may be missing because of the failure.
func (f Failure) covers(group string) bool {
	switch f.Path {
	case coreRoot:
		return group == ""
	case groupsRoot:
		return group != ""
	default:
		return f.GroupVersion.Group == group
	}
}

// maxNamed limits how many failed parts an error lists.
const maxNamed = 20

// Error lists the failed parts with their reasons on one line. It groups neighboring parts that failed for
// the same reason, and only counts the parts beyond the first twenty.
func (e *Error) Error() string {
	var parts []string
	shown := e.Failures[:min(len(e.Failures), maxNamed)]
	for i := 0; i < len(shown); {
		reason, names := fmt.Sprint(shown[i].Err), []string{shown[i].name()}
		for i++; i < len(shown) && fmt.Sprint(shown[i].Err) == reason; i++ {
			names = append(names, shown[i].name())
		}
		parts = append(parts, strings.Join(names, " and ")+": "+reason)
	}
	if more := len(e.Failures) - len(shown); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return "discovery failed for " + strings.Join(parts, "; ")
}

// Unwrap returns the reasons.
func (e *Error) Unwrap() []error {
	reasons := make([]error, len(e.Failures))
	for i, failure := range e.Failures {
		reasons[i] = failure.Err
	}
	return reasons
}

// servedVersion is the discovery result for one group version.
type servedVersion struct {
	schema.GroupVersion
	preferred bool // whether it is the group's preferred version
	mappings  []Mapping

	// err explains why mappings are missing or, if there are any, why they may be out of date.
	err error
}

// discover asks the server for everything it serves. It returns the core group first, then the other groups
// in the server's order, each with its preferred version first.
//
// It requests the aggregated document (KEP-3352) for /api and /apis, in one request each. A server that does
// not support this format sends the classic document, in which case discover requests the resources for each
// group version.
//
// It takes at most maxRun; any requests still pending by then fail.
//
// If ctx is done, it returns ctx's error. Otherwise the error is an *Error, possibly together with mappings.
// If there are no mappings, the first result is nil.
func discover(ctx context.Context, get Get) ([]servedVersion, error) {
	get = get.guarded()
	roots := []string{coreRoot, groupsRoot}
	served := make([][]servedVersion, len(roots))
	errs := make([]error, len(roots))
	limited, cancel := context.WithTimeoutCause(ctx, maxRun, errSlow)
	defer cancel()
	var asking sync.WaitGroup
	for i, root := range roots {
		asking.Go(func() { served[i], errs[i] = discoverRoot(limited, get, root) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("discovery: %w", ending(ctx, errs))
	}

	var failures []Failure
	for i, err := range errs {
		// A server may have only one of the roots; for example, API servers for custom resources may have no
		// core group. A missing root is then not a failure, even if the other one could not be read.
		if err == nil || apierrors.IsNotFound(err) && !apierrors.IsNotFound(errs[1-i]) {
			continue
		}
		if apierrors.IsNotFound(err) {
			// Do not wrap the error, because a 404 would mean that no kind is served at all.
			err = fmt.Errorf("%v: every API server serves at least one of the two roots; check the server's address", err)
		}
		failures = append(failures, Failure{Path: roots[i], Err: err})
	}
	all := slices.Concat(served...)
	for _, version := range all {
		if version.err != nil {
			failures = append(failures, Failure{
				Path: versionPath(version.GroupVersion), GroupVersion: version.GroupVersion, Err: version.err,
			})
		}
	}
	if len(failures) > 0 {
		return all, &Error{Failures: failures}
	}
	return all, nil
}

// ending returns the reason why a run was canceled, including the step it was in if known.
func ending(ctx context.Context, errs []error) error {
	cause := context.Cause(ctx)
	if stuck, ok := errors.AsType[*source.StuckError](errors.Join(errs...)); ok && errors.Is(stuck, cause) {
		return stuck
	}
	return cause
}

// guarded turns a panic or runtime.Goexit in get into an error, because get calls the user's functions in
// goroutines started by this package. Without the error, a Goexit would look as if the server served
// nothing.
func (get Get) guarded() Get {
	return func(ctx context.Context, path, accept string) (body []byte, contentType string, err error) {
		err = failure.Apart("the transport", func() (err error) {
			body, contentType, err = get(ctx, path, accept)
			return err
		})
		return body, contentType, err
	}
}

// discoverRoot reads a root in whichever format the server sends.
func discoverRoot(ctx context.Context, get Get, root string) ([]servedVersion, error) {
	body, contentType, err := get(ctx, root, aggregatedAccept)
	if err != nil {
		return nil, err
	}
	if version := aggregatedVersion(contentType); version != "" {
		return readAggregated(body, version)
	}
	versions, err := readClassicRoot(root, body)
	if err != nil {
		return nil, err
	}
	readClassicVersions(ctx, get, versions)
	return versions, nil
}

// versionPath returns the path of a group version's resources.
func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return coreRoot + "/" + gv.Version
	}
	return groupsRoot + "/" + gv.Group + "/" + gv.Version
}

// decodeDocument parses a discovery document of the given kind into doc. It fails if the document has a
// different kind, because JSON from a proxy or some other server must not be mistaken for that of an API
// server without resources. API servers omit the apiVersion from the core group's documents.
func decodeDocument(body []byte, apiVersion, kind string, doc any) error {
	var is metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &is); err != nil {
		return fmt.Errorf("decode %s: %w: check that the address belongs to a Kubernetes API server", kind, err)
	}
	if is.Kind != kind || cmp.Or(is.APIVersion, apiVersion) != apiVersion {
		return fmt.Errorf("decode %s: the document has apiVersion %q and kind %q, want %q and %q: check that the address belongs to a Kubernetes API server",
			kind, is.APIVersion, is.Kind, apiVersion, kind)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, doc); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	return nil
}

// errSlow is the cancellation cause for requests in a run that takes longer than maxRun.
var errSlow = fmt.Errorf("discovery gave up after %v: check the network between this process and the API server", maxRun)

// errStale is the error for a group version for which the server has only an outdated document.
var errStale = errors.New("the aggregated API server behind it does not respond, so its kinds may be out of date; see \"kubectl get apiservices\"")
