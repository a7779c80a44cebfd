package protocol

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// summary formats a Status as "code reason message", without the message if want has none.
func summary(status item, want string) string {
	short := fmt.Sprintf("%d %s", status.Code, status.Reason)
	if want == short {
		return short
	}
	return short + " " + status.Message
}

func TestForbidden(t *testing.T) {
	forEach(t, func(s *session) {
		as := []string{"Authorization", "Bearer " + s.nobody}
		for _, tc := range []struct{ method, path, want string }{
			{"GET", "/api/v1/pods", `403 Forbidden pods is forbidden: User "nobody" cannot list resource "pods" in API group "" at the cluster scope`},
			{"GET", "/api/v1/pods?watch=1", `403 Forbidden pods is forbidden: User "nobody" cannot watch resource "pods" in API group "" at the cluster scope`},
			{"GET", "pods/a", `403 Forbidden pods "a" is forbidden: User "nobody" cannot get resource "pods" in API group "" in the namespace "` + s.ns + `"`},
			{"PUT", "apps/v1/deployments/x/status", `403 Forbidden deployments.apps "x" is forbidden: User "nobody" cannot update resource "deployments/status" in API group "apps" in the namespace "` + s.ns + `"`},
			{"DELETE", "pods", `403 Forbidden pods is forbidden: User "nobody" cannot deletecollection resource "pods" in API group "" in the namespace "` + s.ns + `"`},
			{"GET", "/metrics", `403 Forbidden forbidden: User "nobody" cannot get path "/metrics"`},
		} {
			_, raw := s.do(tc.method, tc.path, "", as...)
			require.Equal(s.t, tc.want, summary(parse[item](s.t, raw), tc.want))
		}
		code, _ := s.do("GET", "/version", "", as...)
		require.Equal(s.t, 200, code)
		code, raw := s.do("GET", "pods", "", "Authorization", "Bearer wrong")
		require.Equal(s.t, 401, code)
		require.Equal(s.t, "401 Unauthorized Unauthorized", summary(parse[item](s.t, raw), "401 Unauthorized Unauthorized"))
		_, raw = s.do("GET", "/api/v1/pods", "", "Authorization", "")
		require.Contains(s.t, parse[item](s.t, raw).Message, `User "system:anonymous" cannot list`)
		_, raw = s.do("GET", "/api/v1/pods", "", "Impersonate-User", "nobody")
		require.Contains(s.t, parse[item](s.t, raw).Message, `User "nobody" cannot list`)
	})
}

func TestCreateUpdateDelete(t *testing.T) {
	forEach(t, func(s *session) {
		made := s.must("POST", "configmaps", `{"metadata":{"name":"c","uid":"x"},"data":{"k":"v"}}`)
		require.Equal(s.t, "ConfigMap", made.Kind)
		require.NotEqual(s.t, "x", string(made.Metadata.UID), "the server decides")
		require.False(s.t, made.Metadata.CreationTimestamp.IsZero())

		same := s.must("PUT", "configmaps/c", `{"metadata":{"name":"c"},"data":{"k":"v"}}`)
		require.Equal(s.t, made.Metadata.ResourceVersion, same.Metadata.ResourceVersion, "no change, no version")
		changed := s.must("PUT", "configmaps/c", `{"metadata":{"name":"c"},"data":{"k":"w"}}`)
		require.NotEqual(s.t, made.Metadata.ResourceVersion, changed.Metadata.ResourceVersion)
		require.Equal(s.t, made.Metadata.UID, changed.Metadata.UID)

		dry := s.must("PUT", "configmaps/c?dryRun=All", `{"metadata":{"name":"c"},"data":{"k":"x"}}`)
		require.Equal(s.t, "x", dry.Data["k"])
		s.must("DELETE", "configmaps/c?dryRun=All", "")
		require.Equal(s.t, "w", s.must("GET", "configmaps/c", "").Data["k"])
		require.Empty(s.t, s.must("POST", "configmaps?dryRun=All", `{"metadata":{"name":"d"}}`).Metadata.ResourceVersion)

		gone := s.must("DELETE", "configmaps/c", "")
		require.Equal(s.t, "Status", gone.Kind)
		require.Equal(s.t, "Success", gone.Status)
		require.Equal(s.t, &metav1.StatusDetails{Name: "c", Kind: "configmaps", UID: made.Metadata.UID}, gone.Details)

		generated := s.must("POST", "configmaps", `{"metadata":{"generateName":"gen-"}}`).Metadata
		require.Regexp(s.t, `^gen-[a-z0-9]{5}$`, generated.Name)

		s.pods("a")
		require.Equal(s.t, "Pod", s.must("DELETE", "pods/a", "").Kind, "pods answer with themselves")
		lease := `{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}`
		code, _ := s.do("PUT", "coordination.k8s.io/v1/leases/l", lease)
		require.Equal(s.t, 201, code, "leases are created by an update")
		code, _ = s.do("PUT", "coordination.k8s.io/v1/leases/l", lease)
		require.Equal(s.t, 422, code, "but not updated blindly")
		held := s.must("GET", "coordination.k8s.io/v1/leases/l", "").Metadata
		s.must("DELETE", "coordination.k8s.io/v1/leases/l", "")
		code, raw := s.do("PUT", "coordination.k8s.io/v1/leases/l", fmt.Sprintf(`{"metadata":{"name":"l","uid":%q,"resourceVersion":%q}}`, held.UID, held.ResourceVersion))
		require.Equal(s.t, 409, code, "%s", raw)
		require.Contains(s.t, string(raw), fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: \"", held.UID))
		code, raw = s.do("PUT", "coordination.k8s.io/v1/leases/l", fmt.Sprintf(`{"metadata":{"name":"l","resourceVersion":%q}}`, held.ResourceVersion))
		require.Equal(s.t, 201, code, "%s", raw)
	})
}

// A dry run returns the same answer as the real request, and changes nothing.
func TestADryRunAnswersTheSame(t *testing.T) {
	forEach(t, func(s *session) {
		held := `"name":"h","finalizers":["example.com/f"]`
		made := s.must("POST", "configmaps", `{"metadata":{`+held+`}}`)
		s.must("POST", "pods", `{"metadata":{`+held+`},"spec":{"containers":[{"name":"m","image":"i"}]}}`)
		s.pods("a")
		s.must("POST", "example.com/v1/widgets", widget("w"))

		dry := s.must("PUT", "configmaps/h?dryRun=All", `{"metadata":{"name":"h"},"data":{"k":"v"}}`).Metadata
		require.Equal(s.t, made.Metadata.UID, dry.UID)
		require.Equal(s.t, made.Metadata.ResourceVersion, dry.ResourceVersion)
		require.Equal(s.t, made.Metadata.CreationTimestamp, dry.CreationTimestamp)
		require.EqualValues(s.t, 2, s.merge("example.com/v1/widgets/w?dryRun=All", `{"spec":{"size":9}}`).Metadata.Generation)

		for _, path := range []string{"configmaps/h", "pods/h", "pods/a"} {
			before := s.must("GET", path, "")
			dry := s.must("DELETE", path+"?dryRun=All", "")
			require.Equal(s.t, before.Kind, dry.Kind, path)
			require.NotNil(s.t, dry.Metadata.DeletionTimestamp, path)
			require.Equal(s.t, before.Metadata.Finalizers, dry.Metadata.Finalizers, path)
			require.Equal(s.t, before.Metadata.ResourceVersion, dry.Metadata.ResourceVersion, path)
			require.Equal(s.t, before, s.must("GET", path, ""), path)
		}
		s.must("DELETE", "configmaps/h", "")
		require.NotNil(s.t, s.must("DELETE", "configmaps/h?dryRun=All", "").Metadata.DeletionTimestamp)
		require.NotNil(s.t, s.must("PUT", "configmaps/h?dryRun=All", `{"metadata":{"name":"h"}}`).Metadata.DeletionTimestamp, "it would go with its finalizers")
		require.Equal(s.t, []string{"example.com/f"}, s.must("GET", "configmaps/h", "").Metadata.Finalizers)
	})
}

// Version zero means no version: an object with it is written unconditionally.
func TestVersionZeroMeansNoVersion(t *testing.T) {
	forEach(t, func(s *session) {
		const zero = `"resourceVersion":"0"`
		made := s.must("POST", "configmaps", `{"metadata":{"name":"c",`+zero+`}}`)
		require.NotEqual(s.t, "0", made.Metadata.ResourceVersion)
		s.must("POST", "configmaps", `{"metadata":{"name":"d","resourceVersion":"junk"}}`)
		require.Equal(s.t, "v", s.must("PUT", "configmaps/c", `{"metadata":{"name":"c",`+zero+`},"data":{"k":"v"}}`).Data["k"])
		require.Equal(s.t, "w", s.merge("configmaps/c", `{"metadata":{`+zero+`},"data":{"k":"w"}}`).Data["k"])
		s.applied("configmaps/c", "me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c",`+zero+`}}`)
		s.must("POST", "apps/v1/deployments", deployment(`{"containers":[{"name":"m","image":"i"}]}`))
		s.must("PUT", "apps/v1/deployments/d/scale", `{"metadata":{"name":"d",`+zero+`},"spec":{"replicas":4}}`)
		s.must("PUT", "coordination.k8s.io/v1/leases/l", `{"metadata":{"name":"l",`+zero+`}}`)
	})
}

// Most names are DNS names. Some kinds accept any path segment, and some no dots.
func TestNames(t *testing.T) {
	forEach(t, func(s *session) {
		const rbac, edit = "rbac.authorization.k8s.io/v1/", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"}`
		event := `"involvedObject":{"namespace":"` + s.ns + `"}`
		for _, tc := range []struct {
			path, name, rest string
			code             int
		}{
			{rbac + "roles", "system:thing", `"rules":[]`, 201},
			{rbac + "roles", "a%b", `"rules":[]`, 422},
			{rbac + "roles", "a/b", `"rules":[]`, 422},
			{rbac + "roles", "..", `"rules":[]`, 422},
			{rbac + "rolebindings", "Leader", edit, 201},
			{"/apis/" + rbac + "clusterroles", s.ns + ":A", `"rules":[]`, 201},
			{"/apis/" + rbac + "clusterrolebindings", s.ns + ":A", edit, 201},
			{"events", "System:thing.17a", event, 201},
			{"events", "a%b", event, 422},
			{"configmaps", "a.b", `"data":{}`, 201},
			{"configmaps", "a:b", `"data":{}`, 422},
			{"services", "a.b", `"spec":{"ports":[{"port":1}]}`, 422},
			{"/api/v1/namespaces", "a.b", `"spec":{}`, 422},
			{"apps/v1/statefulsets", "a.b", `"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},
				"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"m","image":"i"}]}}}`, 422},
		} {
			code, raw := s.do("POST", tc.path, fmt.Sprintf(`{"metadata":{"name":%q},%s}`, tc.name, tc.rest))
			require.Equal(s.t, tc.code, code, "%s %s: %s", tc.path, tc.name, raw)
		}
		code, raw := s.do("GET", rbac+"roles/system:thing", "")
		require.Equal(s.t, 200, code, "%s", raw)
	})
}

func TestStatusSubresource(t *testing.T) {
	forEach(t, func(s *session) {
		made := s.must("POST", "example.com/v1/widgets", widget("w"))
		require.Nil(s.t, made.Status, "not by a create")
		require.EqualValues(s.t, 1, made.Metadata.Generation)
		all := `{"spec":{"size":2},"status":{"seen":2},"metadata":{"labels":{"l":"1"},"annotations":{"a":"1"}}}`
		status := s.merge("example.com/v1/widgets/w/status", all)
		require.Equal(s.t, map[string]any{"seen": 2.0}, status.Status)
		require.Equal(s.t, 1.0, status.Spec["size"])
		require.Empty(s.t, status.Metadata.Labels)
		require.EqualValues(s.t, 1, status.Metadata.Generation)
		spec := s.merge("example.com/v1/widgets/w", `{"spec":{"size":3},"status":{"seen":3},"metadata":{"labels":{"l":"1"}}}`)
		require.Equal(s.t, map[string]any{"seen": 2.0}, spec.Status)
		require.Equal(s.t, 3.0, spec.Spec["size"])
		require.EqualValues(s.t, 2, spec.Metadata.Generation)
		require.EqualValues(s.t, 2, s.merge("example.com/v1/widgets/w", `{"metadata":{"labels":{"l":"2"}}}`).Metadata.Generation)
		status = s.merge("example.com/v1/widgets/w/status", `{"metadata":{"uid":"x"},"status":{"seen":4}}`)
		require.Equal(s.t, made.Metadata.UID, status.Metadata.UID, "the metadata counts for nothing")

		deployment := `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"m","image":"i"}]}}},"status":{"replicas":5}}`
		require.NotContains(s.t, s.must("POST", "apps/v1/deployments", deployment).Status, "replicas")
		d := s.merge("apps/v1/deployments/d/status", `{"spec":{"replicas":2},"status":{"replicas":1},"metadata":{"labels":{"l":"1"},"annotations":{"a":"1"}}}`)
		require.Equal(s.t, 1.0, d.Spec["replicas"])
		require.Contains(s.t, d.Status, "replicas")
		require.Empty(s.t, d.Metadata.Labels)
		require.Equal(s.t, "1", d.Metadata.Annotations["a"])
		require.EqualValues(s.t, 1, d.Metadata.Generation)
		require.EqualValues(s.t, 2, s.merge("apps/v1/deployments/d", `{"spec":{"replicas":3}}`).Metadata.Generation)
		require.EqualValues(s.t, 2, s.merge("apps/v1/deployments/d", `{"metadata":{"labels":{"a":"2"}}}`).Metadata.Generation)
		require.EqualValues(s.t, 3, s.merge("apps/v1/deployments/d", `{"metadata":{"annotations":{"a":"2"}}}`).Metadata.Generation, "its replica sets get the annotations")

		s.pods("a")
		p := s.merge("pods/a/status", `{"spec":{"nodeName":"n"},"status":{"phase":"Running"},"metadata":{"labels":{"l":"1"}}}`)
		require.Equal(s.t, "1", p.Metadata.Labels["l"], "a pod's status write takes labels")
		require.Empty(s.t, p.Spec["nodeName"])
		require.Equal(s.t, "Running", p.Status.(map[string]any)["phase"])
	})
}

func TestPatches(t *testing.T) {
	forEach(t, func(s *session) {
		s.must("POST", "configmaps", `{"metadata":{"name":"c","labels":{"a":"1"}},"data":{"k":"v"}}`)
		c := s.must("PATCH", "configmaps/c", `[{"op":"add","path":"/data/j","value":"w"},{"op":"test","path":"/data/k","value":"v"}]`, "Content-Type", jsonPatch)
		require.Equal(s.t, map[string]string{"k": "v", "j": "w"}, c.Data)
		c = s.merge("configmaps/c", `{"data":{"k":null}}`)
		require.Equal(s.t, map[string]string{"j": "w"}, c.Data)
		c = s.must("PATCH", "configmaps/c", `{"metadata":{"labels":{"b":"2"}}}`, "Content-Type", strategic)
		require.Equal(s.t, map[string]string{"a": "1", "b": "2"}, c.Metadata.Labels)

		s.merge("configmaps/c", `{"kind":null}`)
		s.must("PATCH", "configmaps/c", `{"kind":"Pod"}`, "Content-Type", strategic)

		s.pods("p")
		containers := `{"metadata":{"annotations":{"x":"y"}},"spec":{"containers":[{"name":"m","image":"other"}]}}`
		p := s.must("PATCH", "pods/p", containers, "Content-Type", strategic)
		require.Equal(s.t, "other", p.Spec["containers"].([]any)[0].(map[string]any)["image"], "merged by name")

		apply := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: new\ndata:\n  k: v\n"
		code, raw := s.do("PATCH", "configmaps/new?fieldManager=me", apply, "Content-Type", applyPatch)
		require.Equal(s.t, 201, code, "%s", raw)
		first := parse[item](s.t, raw)
		require.Equal(s.t, "me", first.Metadata.ManagedFields[0].Manager)
		require.Equal(s.t, metav1.ManagedFieldsOperationApply, first.Metadata.ManagedFields[0].Operation)
		again := s.must("PATCH", "configmaps/new?fieldManager=me", apply, "Content-Type", applyPatch)
		require.Equal(s.t, first.Metadata.ResourceVersion, again.Metadata.ResourceVersion, "nothing new")
	})
}

func TestDeleteCollection(t *testing.T) {
	forEach(t, func(s *session) {
		for _, name := range []string{"a", "b", "c"} {
			s.must("POST", "configmaps", `{"metadata":{"name":"`+name+`","labels":{"n":"`+name+`"}}}`)
		}
		code, raw := s.do("DELETE", "configmaps?labelSelector=n+in+(a,b)", "")
		require.Equal(s.t, 200, code)
		require.Equal(s.t, "a b", parse[list](s.t, raw).names())
		require.Equal(s.t, "c", s.list("configmaps").names())
	})
}

func TestPreconditions(t *testing.T) {
	forEach(t, func(s *session) {
		options := func(o metav1.ObjectMeta) string {
			return fmt.Sprintf(`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":%q,"resourceVersion":%q}}`, o.UID, o.ResourceVersion)
		}
		for _, path := range []string{"configmaps", "pods", "example.com/v1/widgets"} {
			body := pod("a")
			switch path {
			case "configmaps":
				body = `{"metadata":{"name":"a"}}`
			case "example.com/v1/widgets":
				body = widget("a")
			}
			old := s.must("POST", path, body).Metadata
			now := s.merge(path+"/a", `{"metadata":{"labels":{"x":"y"}}}`).Metadata
			code, raw := s.do("DELETE", path+"/a", options(old))
			require.Equal(s.t, 409, code, "%s", raw)
			code, raw = s.do("DELETE", path, options(old))
			require.Equal(s.t, 409, code, "a collection, too: %s", raw)
			s.must("GET", path+"/a", "")
			s.must("DELETE", path+"/a", options(now))
			code, _ = s.do("GET", path+"/a", "")
			require.Equal(s.t, 404, code)
		}
	})
}

// An unknown option is refused, and nothing is written. That matters most for a dry run.
func TestOptionsAreChecked(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		s.must("POST", "configmaps", `{"metadata":{"name":"c"},"data":{"k":"v"}}`)
		s.must("POST", "apps/v1/deployments", deployment(`{"containers":[{"name":"m","image":"i"}]}`))
		before := s.must("GET", "configmaps/c", "").Metadata.ResourceVersion
		dryRun := func(kind, value string) string {
			return fmt.Sprintf(`422 Invalid %s.meta.k8s.io "" is invalid: dryRun: Unsupported value: [%q]: supported values: "All"`, kind, value)
		}
		for _, tc := range []struct{ method, path, body, want string }{
			{"POST", "configmaps?dryRun=all", `{"metadata":{"name":"d"}}`, dryRun("CreateOptions", "all")},
			{"POST", "configmaps?dryRun=", `{"metadata":{"name":"d"}}`, dryRun("CreateOptions", "")},
			{"POST", "configmaps?dryRun=all", `{nonsense`, dryRun("CreateOptions", "all")},
			{"POST", "configmaps?fieldValidation=foo", `{"metadata":{"name":"d"}}`,
				`422 Invalid CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "foo": supported values: "", "Ignore", "Strict", "Warn"`},
			{"POST", "configmaps?fieldManager=a%0ab", `{"metadata":{"name":"d"}}`,
				`422 Invalid CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\nb": invalid character U+000A (at position 1)`},
			{"PUT", "configmaps/c?dryRun=true", `{"metadata":{"name":"c"}}`, dryRun("UpdateOptions", "true")},
			{"PATCH", "configmaps/c?dryRun=true", `{"data":{"k":"w"}}`, dryRun("PatchOptions", "true")},
			{"PATCH", "configmaps/c?force=", `{"data":{"k":"w"}}`,
				`422 Invalid PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`},
			{"DELETE", "configmaps/c?dryRun=", "", dryRun("DeleteOptions", "")},
			{"DELETE", "configmaps/c", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["foo"]}`, dryRun("DeleteOptions", "foo")},
			{"DELETE", "configmaps/c?propagationPolicy=Foo", "",
				`422 Invalid DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil"`},
			{"DELETE", "configmaps?dryRun=foo", "", dryRun("DeleteOptions", "foo")},
			{"POST", "pods/a/eviction?dryRun=foo", `{"metadata":{"name":"a"}}`, dryRun("CreateOptions", "foo")},
			{"POST", "pods/a/eviction", `{"metadata":{"name":"a"},"deleteOptions":{"dryRun":["foo"]}}`, dryRun("DeleteOptions", "foo")},
			{"POST", "pods/a/eviction?dryRun=All", `{"metadata":{"name":"a"},"deleteOptions":{"dryRun":["foo"]}}`,
				`500  Non-matching dry-run options in request and content: [All] and [foo]`},
			{"POST", "pods/a/binding?dryRun=foo", `{"metadata":{"name":"a"},"target":{"name":"n"}}`, dryRun("CreateOptions", "foo")},
			{"PUT", "apps/v1/deployments/d/scale?dryRun=foo", `{"metadata":{"name":"d"},"spec":{"replicas":5}}`, dryRun("UpdateOptions", "foo")},
		} {
			header := []string{}
			if tc.method == "PATCH" {
				header = append(header, "Content-Type", mergePatch)
			}
			require.Equal(s.t, tc.want, s.refused(tc.method, tc.path, tc.body, header...), "%s %s %s", tc.method, tc.path, tc.body)
		}
		require.NotContains(s.t, s.list("configmaps").names(), "d")
		require.Equal(s.t, before, s.must("GET", "configmaps/c", "").Metadata.ResourceVersion)
		require.Empty(s.t, s.must("GET", "pods/a", "").Spec["nodeName"])
		require.NotEqual(s.t, 5.0, s.must("GET", "apps/v1/deployments/d", "").Spec["replicas"])

		s.must("POST", "configmaps?dryRun=All&dryRun=All", `{"metadata":{"name":"d"}}`)
		require.NotContains(s.t, s.list("configmaps").names(), "d")
		s.must("DELETE", "configmaps/c?dryRun=All", `{"kind":"DeleteOptions","apiVersion":"v1"}`)
		code, _ := s.do("GET", "configmaps/c", "")
		require.Equal(s.t, 404, code, "beside a body the query counts for nothing")
	})
}
