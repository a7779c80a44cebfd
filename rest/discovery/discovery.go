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

// The two documents that everything else is found from: the legacy group and
// the named groups.
const (
	coreRoot   = "/api"
	groupsRoot = "/apis"
)

// Error says which parts of the server's API could not be discovered.
// The usual reason is an APIService whose backend is down. All other parts were
// discovered.
type Error struct {
	Failures []Failure // at least one
}

// Failure is one part of the API that could not be discovered.
type Failure struct {
	// Path is the document that failed, such as "/apis/metrics.k8s.io/v1beta1".
	// It is "/api" or "/apis" when the core group or all named groups failed.
	Path string

	// GroupVersion is what the document describes; empty for "/api" and "/apis".
	GroupVersion schema.GroupVersion

	// Err is the reason: the server's status, or a transport or decoding error.
	Err error
}

// String names the part and the reason.
func (f Failure) String() string { return fmt.Sprintf("%s: %v", f.name(), f.Err) }

func (f Failure) name() string {
	if f.GroupVersion.Empty() {
		return f.Path
	}
	return f.GroupVersion.String()
}

// covers reports whether resources of a group could be hidden by the failure.
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

// maxNamed bounds how many failed parts an error names. A server may have any number.
const maxNamed = 20

// Error names the failed parts with their reasons, in one line, and counts those after the
// first twenty. Neighbours that failed for one reason share it.
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

// Unwrap returns the reasons, so that errors.Is and errors.As find them.
func (e *Error) Unwrap() []error {
	reasons := make([]error, len(e.Failures))
	for i, failure := range e.Failures {
		reasons[i] = failure.Err
	}
	return reasons
}

// servedVersion is what discovery learned about one group version.
type servedVersion struct {
	schema.GroupVersion
	preferred bool // the version that the server prefers in its group
	mappings  []Mapping

	// err says why mappings is missing, or, where there are some, why they may
	// be out of date.
	err error
}

// discover asks the server what it serves: the core group first, then the
// groups in the server's order, within a group the preferred version first.
//
// Each of /api and /apis is asked for its aggregated document (KEP-3352), which
// takes one request; a server that does not know that form answers with the
// classic one, and then every group version is asked for its resources.
//
// It takes maxRun at most: what has not answered by then failed.
//
// Errors: the context's error when it ended; otherwise a *Error, with
// whatever was learned beside it. When nothing was learned the first result is
// nil.
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
		// A server may have only one of the roots, such as an API server of
		// custom resources without a core group: then the other one is absent
		// and not broken, whatever is the matter with the first.
		if err == nil || apierrors.IsNotFound(err) && !apierrors.IsNotFound(errs[1-i]) {
			continue
		}
		if apierrors.IsNotFound(err) {
			// Not wrapped: it would say of every kind that it is not served.
			err = fmt.Errorf("%v: no API server has neither root; check the server's address", err)
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

// ending says why a run ended with its context, and what it waited for where a request
// knows that.
func ending(ctx context.Context, errs []error) error {
	cause := context.Cause(ctx)
	if stuck, ok := errors.AsType[*source.StuckError](errors.Join(errs...)); ok && errors.Is(stuck, cause) {
		return stuck
	}
	return cause
}

// guarded makes an error of a panic and of a runtime.Goexit: what is asked for comes
// through functions of the user's, and in goroutines that nobody else watches over. An
// exit without an error would read as a server that serves nothing.
func (get Get) guarded() Get {
	return func(ctx context.Context, path, accept string) (body []byte, contentType string, err error) {
		err = failure.Apart("the transport", func() (err error) {
			body, contentType, err = get(ctx, path, accept)
			return err
		})
		return body, contentType, err
	}
}

// discoverRoot reads what is served below one root, in whichever form the
// server gives.
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

// versionPath is where the resources of a group version are served.
func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return coreRoot + "/" + gv.Version
	}
	return groupsRoot + "/" + gv.Group + "/" + gv.Version
}

// decodeDocument reads a discovery document of the given kind into doc. It fails if the document says
// that it is of another kind, because the JSON of a proxy or of another server would otherwise read as
// a server that serves nothing. API servers leave out the apiVersion of the core group's documents.
func decodeDocument(body []byte, apiVersion, kind string, doc any) error {
	var is metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &is); err != nil {
		return fmt.Errorf("decode %s: %w: check that the address is that of a Kubernetes API server", kind, err)
	}
	if is.Kind != kind || cmp.Or(is.APIVersion, apiVersion) != apiVersion {
		return fmt.Errorf("decode %s: the document has apiVersion %q and kind %q, want %q and %q: check that the address is that of a Kubernetes API server",
			kind, is.APIVersion, is.Kind, apiVersion, kind)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, doc); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	return nil
}

// errSlow ends the requests of a run that takes too long.
var errSlow = fmt.Errorf("discovery gave up after %v: check what is between here and the API server", maxRun)

// errStale is the failure of a group version whose document the server could
// not refresh.
var errStale = errors.New("the aggregated API server behind it does not answer, what is known of it may be out of date; see \"kubectl get apiservices\"")
