package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	strategic  = "application/strategic-merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
	proto      = "application/vnd.kubernetes.protobuf"
	cborMedia  = "application/cbor"
	metaOnly   = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metaLists  = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// refusals are invalid requests in a namespace that contains the pod a, the configmap c and the
// widget w.
var refusals = []struct {
	name         string
	method, path string
	body         string
	contentType  string
	accept       string
	want         string // code, reason and message; without the message if it names something that only one server has
}{
	{name: "unknown object", path: "pods/none", want: `404 NotFound pods "none" not found`},
	{name: "unknown custom object", path: "example.com/v1/widgets/none", want: `404 NotFound widgets.example.com "none" not found`},
	{name: "unknown resource", path: "nonsenses", want: `404 NotFound the server could not find the requested resource`},
	{name: "unknown subresource", path: "configmaps/c/status", want: `404 NotFound the server could not find the requested resource`},
	{name: "unknown version", path: "/apis/apps/v9", want: `404 NotFound the server could not find the requested resource`},
	{name: "object of no namespace", path: "/api/v1/pods/a", want: `404 NotFound the server could not find the requested resource`},
	{name: "namespace of cluster resource", path: "nodes", want: `404 NotFound the server could not find the requested resource`},

	{name: "unknown field of pods", path: "pods?fieldSelector=spec.none%3D1", want: `400 BadRequest field label not supported: spec.none`},
	{name: "unknown field of configmaps", path: "configmaps?fieldSelector=data.k%3D1",
		want: `400 BadRequest "data.k" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	{name: "unknown field of replica sets", path: "apps/v1/replicasets?fieldSelector=status.replicas%3D1",
		want: `400 BadRequest "status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"`},
	{name: "unknown field of jobs", path: "batch/v1/jobs?fieldSelector=status.failed%3D1", want: `400 BadRequest field label "status.failed" not supported for Job`},
	{name: "field of other events", path: "/apis/events.k8s.io/v1/events?fieldSelector=involvedObject.kind%3DPod", want: `400 BadRequest field label not supported: involvedObject.kind`},
	{name: "namespace field of nodes", path: "/api/v1/nodes?fieldSelector=metadata.namespace%3Dx", want: `400 BadRequest field label not supported: metadata.namespace`},
	{name: "bad label selector", path: "pods?labelSelector=%3D%3D", want: `400 BadRequest found '==', expected: !, identifier, or 'end of string'`},
	{name: "bad limit", path: "pods?limit=x", want: `400 BadRequest strconv.ParseInt: parsing "x": invalid syntax`},
	{name: "bad continue", path: "pods?continue=junk", want: `400 BadRequest invalid continue token: continue key is not valid: invalid character '\u008e' looking for beginning of value`},
	{name: "bad version", path: "pods?resourceVersion=junk",
		want: `400 BadRequest invalid resource version: resourceVersion: Invalid value: "junk": strconv.ParseUint: parsing "junk": invalid syntax`},
	{name: "bad version of a watch", path: "pods?watch=1&resourceVersion=junk",
		want: `500  resourceVersion: Invalid value: "junk": strconv.ParseUint: parsing "junk": invalid syntax`},
	{name: "match without version", path: "pods?resourceVersionMatch=Exact",
		want: `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`},
	{name: "exact zero", path: "pods?resourceVersionMatch=Exact&resourceVersion=0",
		want: `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
	{name: "match of a watch", path: "pods?watch=1&resourceVersionMatch=NotOlderThan",
		want: `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`},
	{name: "streaming list without match", path: "pods?watch=1&sendInitialEvents=true",
		want: `422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
	{name: "streaming list without watch", path: "pods?sendInitialEvents=true",
		want: `422 Invalid ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list`},

	{name: "media type", path: "pods", accept: "image/png", want: `406 NotAcceptable`},
	{name: "custom resource in protobuf", path: "example.com/v1/widgets", accept: proto, want: "406"},
	{name: "metadata of a list", path: "pods", accept: "application/json" + metaOnly, want: `406 NotAcceptable`},
	{name: "metadata list of an object", path: "pods/a", accept: "application/json" + metaLists, want: `406 NotAcceptable`},
	{name: "unknown transformation", path: "pods", accept: "application/json;as=Odd;g=meta.k8s.io;v=v1", want: `406 NotAcceptable`},

	{name: "create what exists", method: "POST", path: "configmaps", body: `{"metadata":{"name":"c"}}`, want: `409 AlreadyExists configmaps "c" already exists`},
	{name: "create without name", method: "POST", path: "configmaps", body: `{"metadata":{}}`,
		want: `422 Invalid ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
	{name: "create with bad name", method: "POST", path: "configmaps", body: `{"metadata":{"name":"A_b"}}`,
		want: `422 Invalid ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
	{name: "create with version", method: "POST", path: "configmaps", body: `{"metadata":{"name":"d","resourceVersion":"5"}}`,
		want: `500  resourceVersion should not be set on objects to be created`},
	{name: "create elsewhere", method: "POST", path: "configmaps", body: `{"metadata":{"name":"d","namespace":"other"}}`,
		want: `400 BadRequest the namespace of the provided object does not match the namespace sent on the request`},
	{name: "create nowhere", method: "POST", path: "/api/v1/configmaps", body: `{"metadata":{"name":"d"}}`,
		want: `405 MethodNotAllowed the server does not allow this method on the requested resource`},
	{name: "create in no namespace", method: "POST", path: "/api/v1/namespaces/nope/configmaps", body: `{"metadata":{"name":"d"}}`,
		want: `404 NotFound namespaces "nope" not found`},
	{name: "create another kind", method: "POST", path: "pods", body: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"d"}}`, want: `400 BadRequest`},
	{name: "create from nonsense", method: "POST", path: "configmaps", body: `{nonsense`, want: `400 BadRequest`},
	{name: "create from wrong field", method: "POST", path: "configmaps", body: `{"metadata":{"name":5}}`, want: `400 BadRequest`},
	{name: "create custom object from wrong field", method: "POST", path: "example.com/v1/widgets", body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","labels":{"k":1}}}`, want: `400 BadRequest`},
	{name: "create from picture", method: "POST", path: "configmaps", body: `x`, contentType: "image/png", want: `415 UnsupportedMediaType`},
	{name: "post to object", method: "POST", path: "pods/a", body: `{}`, want: `405 MethodNotAllowed the server does not allow this method on the requested resource`},

	{name: "update of nothing", method: "PUT", path: "configmaps/none", body: `{"metadata":{"name":"none"}}`, want: `404 NotFound configmaps "none" not found`},
	{name: "update of old version", method: "PUT", path: "configmaps/c", body: `{"metadata":{"name":"c","resourceVersion":"1"}}`,
		want: `409 Conflict Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`},
	{name: "update of another uid", method: "PUT", path: "configmaps/c", body: `{"metadata":{"name":"c","uid":"x"}}`, want: `409 Conflict`},
	{name: "update of another name", method: "PUT", path: "configmaps/c", body: `{"metadata":{"name":"d"}}`,
		want: `400 BadRequest the name of the object (d) does not match the name on the URL (c)`},
	{name: "update without name", method: "PUT", path: "configmaps/c", body: `{"metadata":{}}`,
		want: `400 BadRequest the name of the object (c based on URL) was undeterminable: name must be provided`},
	{name: "update of the status of another uid", method: "PUT", path: "example.com/v1/widgets/w/status", body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","uid":"x"}}`, want: `409 Conflict`},
	{name: "blind update of a custom object", method: "PUT", path: "example.com/v1/widgets/w", body: widget("w"),
		want: `422 Invalid widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "update of no version", method: "PUT", path: "configmaps/c", body: `{"metadata":{"name":"c","resourceVersion":"junk"}}`, want: `500 `},
	{name: "update of version zero", method: "PUT", path: "coordination.k8s.io/v1/leases/l", body: `{"metadata":{"name":"l","resourceVersion":"0"}}`, want: `422 Invalid leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "patch to version zero", method: "PATCH", path: "coordination.k8s.io/v1/leases/l", body: `{"metadata":{"resourceVersion":"0"}}`, contentType: mergePatch, want: `422 Invalid leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "patch to no version", method: "PATCH", path: "coordination.k8s.io/v1/leases/l", body: `{"metadata":{"resourceVersion":null}}`, contentType: mergePatch, want: `422 Invalid leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "update of version zero of a custom object", method: "PUT", path: "example.com/v1/widgets/w", body: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"0"}}`, want: `422 Invalid widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "patch to version zero of a status", method: "PATCH", path: "example.com/v1/widgets/w/status", body: `{"metadata":{"resourceVersion":"0"}}`, contentType: mergePatch, want: `422 Invalid widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "update to version zero of a scale", method: "PUT", path: "example.com/v1/widgets/w/scale", body: `{"metadata":{"name":"w","resourceVersion":"0"},"spec":{"replicas":4}}`, want: `422 Invalid widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "patch to version zero of a scale", method: "PATCH", path: "example.com/v1/widgets/w/scale", body: `{"metadata":{"resourceVersion":"0"},"spec":{"replicas":4}}`, contentType: mergePatch, want: `422 Invalid widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
	{name: "delete of version zero", method: "DELETE", path: "configmaps/c", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"0"}}`, want: `409 Conflict`},
	{name: "update to no label", method: "PUT", path: "configmaps/c", body: `{"metadata":{"name":"c","labels":{"a":"x/y"}}}`, want: `422 Invalid`},
	{name: "patch to no label", method: "PATCH", path: "configmaps/c", body: `{"metadata":{"labels":{"a b":"x"}}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch to no label of a custom object", method: "PATCH", path: "example.com/v1/widgets/w", body: `{"metadata":{"labels":{"a":"x/y"}}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch to no annotation", method: "PATCH", path: "configmaps/c", body: `{"metadata":{"annotations":{"a b":"x"}}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch to no label of a status", method: "PATCH", path: "pods/a/status", body: `{"metadata":{"labels":{"a":"x/y"}}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "create with an unknown field", method: "POST", path: "configmaps?fieldValidation=Strict", body: `{"metadata":{"name":"e"},"dta":{}}`, want: `400 BadRequest`},
	{name: "create with a field in another case", method: "POST", path: "configmaps?fieldValidation=Strict", body: `{"metadata":{"name":"e"},"Data":{}}`, want: `400 BadRequest`},
	{name: "patch of an unknown field", method: "PATCH", path: "configmaps/c?fieldValidation=Strict", body: `{"dta":{}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "put to collection", method: "PUT", path: "pods", body: `{}`, want: `405 MethodNotAllowed the server does not allow this method on the requested resource`},

	{name: "patch of nothing", method: "PATCH", path: "configmaps/none", body: `{}`, contentType: mergePatch, want: `404 NotFound configmaps "none" not found`},
	{name: "patch of unknown type", method: "PATCH", path: "configmaps/c", body: `{}`, contentType: "image/png", want: `415 UnsupportedMediaType`},
	{name: "strategic patch of a custom object", method: "PATCH", path: "example.com/v1/widgets/w", body: `{}`, contentType: strategic, want: `415 UnsupportedMediaType`},
	{name: "patch with failing test", method: "PATCH", path: "configmaps/c", body: `[{"op":"test","path":"/data/k","value":"x"}]`, contentType: jsonPatch,
		want: `422 Invalid the server rejected our request due to an error in our request`},
	{name: "patch of missing path", method: "PATCH", path: "configmaps/c", body: `[{"op":"remove","path":"/data/zz"}]`, contentType: jsonPatch,
		want: `422 Invalid the server rejected our request due to an error in our request`},
	{name: "patch with nonsense", method: "PATCH", path: "configmaps/c", body: `{bad`, contentType: mergePatch, want: `400 BadRequest`}, // 1.37 has another text
	{name: "patch behind the end of a list", method: "PATCH", path: "configmaps/c", body: `[{"op":"remove","path":"/metadata/finalizers/1"}]`, contentType: jsonPatch, want: `422 Invalid the server rejected our request due to an error in our request`},
	{name: "patch of a list by no number", method: "PATCH", path: "configmaps/c", body: `[{"op":"add","path":"/metadata/managedFields/x","value":{}}]`, contentType: jsonPatch, want: `422 Invalid the server rejected our request due to an error in our request`},
	{name: "patch with unknown operation", method: "PATCH", path: "configmaps/c", body: `[{"op":"foo","path":"/data/k"}]`, contentType: jsonPatch, want: `422 Invalid the server rejected our request due to an error in our request`},
	{name: "patch with operation of no text", method: "PATCH", path: "configmaps/c", body: `[{"op":1,"path":"/data/k"}]`, contentType: jsonPatch, want: `400 BadRequest`},
	{name: "patch of one operation", method: "PATCH", path: "configmaps/c", body: `{"op":"remove","path":"/data/k"}`, contentType: jsonPatch, want: `400 BadRequest`},
	{name: "patch to a number", method: "PATCH", path: "configmaps/c", body: `[{"op":"replace","path":"","value":5}]`, contentType: jsonPatch, want: `422 Invalid the server rejected our request due to an error in our request`},
	{name: "patch to another type", method: "PATCH", path: "configmaps/c", body: `[{"op":"replace","path":"/data","value":"b"}]`, contentType: jsonPatch, want: `422 Invalid`},
	{name: "merge patch to another type", method: "PATCH", path: "configmaps/c", body: `{"data":{"k":1}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "strategic patch to another type", method: "PATCH", path: "configmaps/c", body: `{"data":{"k":1}}`, contentType: strategic, want: `422 Invalid`},
	{name: "patch of the scale to another type", method: "PATCH", path: "example.com/v1/widgets/w/scale", body: `{"spec":{"replicas":"x"}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch of a custom object to another type", method: "PATCH", path: "example.com/v1/widgets/w", body: `{"metadata":{"labels":{"k":1}}}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch of the kind", method: "PATCH", path: "configmaps/c", body: `[{"op":"replace","path":"/kind","value":"Pod"}]`, contentType: jsonPatch, want: `422 Invalid`},
	{name: "merge patch of the kind", method: "PATCH", path: "configmaps/c", body: `{"kind":"Pod"}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "merge patch of the version", method: "PATCH", path: "configmaps/c", body: `{"apiVersion":"v2"}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch of the kind of a custom object", method: "PATCH", path: "example.com/v1/widgets/w", body: `{"kind":"Gadget"}`, contentType: mergePatch, want: `422 Invalid Gadget.example.com "w" is invalid: kind: Invalid value: "Gadget": must be Widget`},
	{name: "patch of the version of a custom object", method: "PATCH", path: "example.com/v1/widgets/w", body: `{"apiVersion":"example.com/v2"}`, contentType: mergePatch, want: `422 Invalid Widget.example.com "w" is invalid: apiVersion: Invalid value: "example.com/v2": must be example.com/v1`},
	{name: "patch that takes the kind from a custom object", method: "PATCH", path: "example.com/v1/widgets/w", body: `{"kind":null}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "patch of the kind of a scale", method: "PATCH", path: "example.com/v1/widgets/w/scale", body: `{"kind":"Pod"}`, contentType: mergePatch, want: `422 Invalid`},
	{name: "merge patch of nothing", method: "PATCH", path: "configmaps/c", body: `null`, contentType: mergePatch, want: `400 BadRequest`},
	{name: "merge patch by a list", method: "PATCH", path: "configmaps/c", body: `[]`, contentType: mergePatch, want: `400 BadRequest`},
	{name: "strategic patch with nonsense", method: "PATCH", path: "configmaps/c", body: `{bad`, contentType: strategic, want: `400 BadRequest`},
	{name: "strategic patch without merge key", method: "PATCH", path: "pods/a", body: `{"spec":{"containers":[{"image":"x"}]}}`, contentType: strategic, want: `500  map: map[image:x] does not contain declared merge key: name`},
	{name: "patch of the uid", method: "PATCH", path: "configmaps/c", body: `{"metadata":{"uid":"x"},"data":{"k":"w"}}`, contentType: mergePatch, want: `422 Invalid ConfigMap "c" is invalid: metadata.uid: Invalid value: "x": field is immutable`},
	{name: "json patch of the uid", method: "PATCH", path: "configmaps/c", body: `[{"op":"replace","path":"/metadata/uid","value":"x"}]`, contentType: jsonPatch, want: `422 Invalid ConfigMap "c" is invalid: metadata.uid: Invalid value: "x": field is immutable`},
	{name: "strategic patch of the uid", method: "PATCH", path: "configmaps/c", body: `{"metadata":{"uid":"x"}}`, contentType: strategic, want: `422 Invalid ConfigMap "c" is invalid: metadata.uid: Invalid value: "x": field is immutable`},
	{name: "apply of the uid", method: "PATCH", path: "configmaps/c?fieldManager=m", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"x"}}`, contentType: applyPatch, want: `422 Invalid ConfigMap "c" is invalid: metadata.uid: Invalid value: "x": field is immutable`},
	{name: "patch of the uid of a custom object", method: "PATCH", path: "example.com/v1/widgets/w", body: `{"metadata":{"uid":"x"}}`, contentType: mergePatch, want: `422 Invalid Widget.example.com "w" is invalid: metadata.uid: Invalid value: "x": field is immutable`},
	{name: "patch of the uid of a status", method: "PATCH", path: "pods/a/status", body: `{"metadata":{"uid":"x"},"status":{"message":"m"}}`, contentType: mergePatch, want: `422 Invalid Pod "a" is invalid: metadata.uid: Invalid value: "x": field is immutable`},
	{name: "patch of the name", method: "PATCH", path: "configmaps/c", body: `{"metadata":{"name":"q"}}`, contentType: mergePatch,
		want: `400 BadRequest the name of the object (q) does not match the name on the URL (c)`},
	{name: "patch of old version", method: "PATCH", path: "configmaps/c", body: `{"metadata":{"resourceVersion":"1"}}`, contentType: mergePatch, want: `409 Conflict`},
	{name: "apply without manager", method: "PATCH", path: "configmaps/c", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`, contentType: applyPatch,
		want: `422 Invalid PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},

	{name: "delete of nothing", method: "DELETE", path: "configmaps/none", want: `404 NotFound configmaps "none" not found`},
	{name: "delete of another uid", method: "DELETE", path: "configmaps/c", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"}}`, want: `409 Conflict`},
	{name: "delete of another version", method: "DELETE", path: "configmaps/c", body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"resourceVersion":"1"}}`, want: `409 Conflict`},
	{name: "delete everywhere", method: "DELETE", path: "/api/v1/configmaps", want: `405 MethodNotAllowed the server does not allow this method on the requested resource`},
	{name: "delete by unknown field", method: "DELETE", path: "pods?fieldSelector=spec.none%3D1", want: `400 BadRequest field label not supported: spec.none`},
}

func TestRefusals(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		s.must("POST", "configmaps", `{"metadata":{"name":"c"},"data":{"k":"v"}}`)
		s.must("POST", "example.com/v1/widgets", widget("w"))
		s.must("POST", "coordination.k8s.io/v1/leases", `{"metadata":{"name":"l"}}`)
		for _, tc := range refusals {
			s.t.Run(tc.name, func(t *testing.T) {
				method := tc.method
				if method == "" {
					method = "GET"
				}
				header := []string{"Accept", tc.accept}
				if tc.contentType != "" {
					header = append(header, "Content-Type", tc.contentType)
				}
				code, raw := s.do(method, tc.path, tc.body, header...)
				if tc.want == "406" { // the body is protobuf
					require.Equal(t, 406, code)
					return
				}
				status := parse[item](t, raw)
				require.Equal(t, "Status", status.Kind)
				require.Equal(t, code, status.Code)
				require.Equal(t, tc.want, summary(status, tc.want))
			})
		}
	})
}
