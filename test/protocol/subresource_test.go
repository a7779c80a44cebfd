package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refused sends a request that must be refused, and returns the Status as "code reason message".
func (s *session) refused(method, path, body string, header ...string) string {
	s.t.Helper()
	code, raw := s.do(method, path, body, header...)
	status := parse[item](s.t, raw)
	require.Equal(s.t, code, status.Code, "%s", raw)
	require.GreaterOrEqual(s.t, code, 300, "%s %s is not refused: %s", method, path, raw)
	return summary(status, "")
}

// workloads are the resources that can be scaled: the path, the body that creates one, and the
// selector in its Scale.
var workloads = []struct{ path, body, selector string }{
	{"apps/v1/deployments", deployment(`{"containers":[{"name":"m","image":"i"}]}`), "a=b"},
	{"apps/v1/replicasets", `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b","c":"d"},"matchExpressions":[{"key":"e","operator":"Exists"}]},
		"template":{"metadata":{"labels":{"a":"b","c":"d","e":"f"}},"spec":{"containers":[{"name":"m","image":"i"}]}}}}`, "a=b,c=d,e"},
	{"apps/v1/statefulsets", `{"metadata":{"name":"d"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"m","image":"i"}]}}}}`, "a=b"},
	{"example.com/v1/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"d"},"spec":{"size":1}}`, "w=x"},
}

func TestScale(t *testing.T) {
	for _, w := range workloads {
		t.Run(w.path, func(t *testing.T) {
			forEach(t, func(s *session) { scales(s, w.path, w.body, w.selector) })
		})
	}
}

func scales(s *session, path, body, selector string) {
	made := s.must("POST", path, body)
	path += "/d"
	s.merge(path+"/status", `{"status":{"replicas":1,"count":1,"selector":"w=x"}}`)
	want := s.must("GET", path, "").Metadata
	got := s.must("GET", path+"/scale", "")
	require.Equal(s.t, "autoscaling/v1 Scale", got.APIVersion+" "+got.Kind)
	require.Equal(s.t, map[string]any{"replicas": 1.0}, got.Spec)
	require.Equal(s.t, map[string]any{"replicas": 1.0, "selector": selector}, got.Status)
	require.Equal(s.t, metav1.ObjectMeta{
		Name: "d", Namespace: s.ns, UID: made.Metadata.UID, ResourceVersion: want.ResourceVersion, CreationTimestamp: made.Metadata.CreationTimestamp,
	}, got.Metadata)

	put := func(version string, replicas int) string {
		return fmt.Sprintf(`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","resourceVersion":%q},"spec":{"replicas":%d}}`, version, replicas)
	}
	got = s.must("PUT", path+"/scale?fieldManager=me", put(got.Metadata.ResourceVersion, 3))
	require.Equal(s.t, map[string]any{"replicas": 3.0}, got.Spec)
	whole := s.must("GET", path, "")
	require.Equal(s.t, whole.Metadata.ResourceVersion, got.Metadata.ResourceVersion)
	require.EqualValues(s.t, 2, whole.Metadata.Generation)
	field := "replicas"
	if whole.Kind == "Widget" {
		field = "size"
	}
	require.Equal(s.t, 3.0, whole.Spec[field])
	require.Contains(s.t, owners(whole), "me Update scale: f:spec/f:"+field)

	same := s.must("PUT", path+"/scale?fieldManager=me", put("", 3))
	require.Equal(s.t, got.Metadata.ResourceVersion, same.Metadata.ResourceVersion, "nothing new")
	got = s.must("PATCH", path+"/scale?fieldManager=you", `{"spec":{"replicas":4}}`, "Content-Type", mergePatch)
	require.Equal(s.t, map[string]any{"replicas": 4.0}, got.Spec)
	whole = s.must("GET", path, "")
	require.Equal(s.t, 4.0, whole.Spec[field])
	require.Contains(s.t, owners(whole), "you Update scale: f:spec/f:"+field)
	require.NotContains(s.t, owners(whole), "me Update scale")
	applied := func(manager string, replicas int, more string) int {
		code, _ := s.apply(path+"/scale"+more, manager, fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":%d}}`, replicas))
		return code
	}
	require.Equal(s.t, 409, applied("applier", 7, ""), "somebody else's")
	if whole.Kind != "Widget" { // 1.36 does not for custom kinds
		require.Equal(s.t, 200, applied("applier", 7, "?force=true"))
		whole = s.must("GET", path, "")
		require.Equal(s.t, 7.0, whole.Spec[field])
		require.Contains(s.t, owners(whole), "applier Apply scale: f:spec/f:"+field)
	}

	got = s.must("PATCH", path+"/scale", `[{"op":"replace","path":"/spec/replicas","value":0}]`, "Content-Type", jsonPatch)
	require.Empty(s.t, got.Spec, "zero is left out")
	dry := s.must("PUT", path+"/scale?dryRun=All", put("", 9))
	require.Equal(s.t, map[string]any{"replicas": 9.0}, dry.Spec)
	require.Empty(s.t, s.must("GET", path+"/scale", "").Spec)

	conflict := s.refused("PUT", path+"/scale", put("1", 1))
	require.Regexp(s.t, `^409 Conflict Operation cannot be fulfilled on \w+\.\S+ "d": the object has been modified; please apply your changes to the latest version and try again$`, conflict)
}

func TestScaleRefusals(t *testing.T) {
	forEach(t, func(s *session) {
		s.must("POST", workloads[0].path, workloads[0].body)
		s.must("POST", workloads[3].path, workloads[3].body)
		const deployment, widget = "apps/v1/deployments/d/scale", "example.com/v1/widgets/d/scale"
		for _, tc := range []struct{ method, path, body, contentType, want string }{
			{"GET", "apps/v1/deployments/none/scale", "", "", `404 NotFound deployments.apps "none" not found`},
			{"GET", "example.com/v1/widgets/none/scale", "", "", `404 NotFound widgets.example.com "none" not found`},
			{"GET", "apps/v1/daemonsets/d/scale", "", "", `404 NotFound the server could not find the requested resource`},
			{"POST", deployment, `{}`, "", `405 MethodNotAllowed the server does not allow this method on the requested resource`},
			{"DELETE", deployment, "", "", `405 MethodNotAllowed the server does not allow this method on the requested resource`},
			{"PUT", deployment, `{"metadata":{"name":"e"}}`, "", `400 BadRequest the name of the object (e) does not match the name on the URL (d)`},
			{"PUT", deployment, `{"metadata":{}}`, "", `400 BadRequest the name of the object (d based on URL) was undeterminable: name must be provided`},
			{"PUT", deployment, `{"metadata":{"name":"d"},"spec":{"replicas":-1}}`, "", `422 Invalid Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`},
			{"PUT", widget, `{"metadata":{"name":"d"},"spec":{"replicas":-1}}`, "", `422 Invalid Widget.example.com "d" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer`},
			{"PUT", deployment, `{"metadata":{"name":"d","uid":"x"},"spec":{"replicas":1}}`, "", `409 Conflict`},
			{"PUT", widget, `{"metadata":{"name":"d","uid":"x"},"spec":{"replicas":1}}`, "", `409 Conflict`},
			{"PATCH", deployment, `{"metadata":{"uid":"x"},"spec":{"replicas":1}}`, mergePatch, `409 Conflict`},
			{"PATCH", deployment + "?fieldManager=m", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","uid":"x"},"spec":{"replicas":1}}`, applyPatch, `409 Conflict`},
			{"PUT", deployment, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"}}`, "", `400 BadRequest`},
			{"PUT", "apps/v1/deployments/none/scale", `{"metadata":{"name":"none"},"spec":{"replicas":1}}`, "", `404 NotFound deployments.apps "none" not found`},
			{"PATCH", widget, `{"spec":{"replicas":1}}`, strategic, `415 UnsupportedMediaType`},
			{"PATCH", deployment, `{"spec":{"replicas":1}}`, "image/png", `415 UnsupportedMediaType`},
		} {
			header := []string{}
			if tc.contentType != "" {
				header = append(header, "Content-Type", tc.contentType)
			}
			_, raw := s.do(tc.method, tc.path, tc.body, header...)
			require.Equal(s.t, tc.want, summary(parse[item](s.t, raw), tc.want), "%s %s %s", tc.method, tc.path, tc.body)
		}
		got := s.must("PATCH", widget, `{"metadata":{"uid":"x"},"spec":{"replicas":5}}`, "Content-Type", mergePatch)
		require.Equal(s.t, map[string]any{"replicas": 5.0}, got.Spec)
		got = s.must("PATCH", deployment, `{"spec":{"replicas":5}}`, "Content-Type", strategic)
		require.Equal(s.t, map[string]any{"replicas": 5.0}, got.Spec)
	})
}

const (
	overBudget = "429 TooManyRequests Cannot evict pod as it would violate the pod's disruption budget."
	notAllowed = "405 MethodNotAllowed the server does not allow this method on the requested resource"
)

func TestEviction(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a", "b", "c", "pending")
		for _, p := range []string{"a", "b", "c"} {
			s.merge("pods/"+p, `{"metadata":{"labels":{"budget":"b"}}}`)
			s.merge("pods/"+p+"/status", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
		}
		evict := func(name, options string) string {
			_, raw := s.do("POST", "pods/"+name+"/eviction",
				fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q},"deleteOptions":{"gracePeriodSeconds":0%s}}`, name, options))
			answer := parse[item](s.t, raw)
			require.Equal(s.t, "Status", answer.Kind)
			told := summary(answer, "201 ")
			if answer.Reason == metav1.StatusReasonTooManyRequests {
				require.Len(s.t, answer.Details.Causes, 1)
				require.EqualValues(s.t, "DisruptionBudget", answer.Details.Causes[0].Type)
				told = fmt.Sprintf("%s %s %d", told, answer.Details.Causes[0].Message, answer.Details.RetryAfterSeconds)
			}
			return told
		}
		require.Equal(s.t, `404 NotFound pods "none" not found`, evict("none", ""))
		const budget = "policy/v1/poddisruptionbudgets/pdb"
		s.must("POST", "policy/v1/poddisruptionbudgets", `{"metadata":{"name":"pdb"},"spec":{"minAvailable":2,"selector":{"matchLabels":{"budget":"b"}}}}`)
		require.Equal(s.t, overBudget+" The disruption budget pdb is still being processed by the server. 10", evict("a", ""))

		s.merge(budget+"/status", `{"status":{"observedGeneration":1,"currentHealthy":3,"desiredHealthy":2,"expectedPods":3,"disruptionsAllowed":2}}`)
		require.Equal(s.t, "201 ", evict("a", `,"dryRun":["All"]`))
		require.Contains(s.t, evict("a", `,"preconditions":{"uid":"x"}`), "409 Conflict ")
		require.Equal(s.t, 1.0, s.must("GET", budget, "").Status.(map[string]any)["disruptionsAllowed"], "it is spent all the same")
		require.Equal(s.t, "201 ", evict("a", ""))
		code, _ := s.do("GET", "pods/a", "")
		require.Equal(s.t, 404, code)
		status := s.must("GET", budget, "").Status.(map[string]any)
		require.Equal(s.t, 0.0, status["disruptionsAllowed"])
		require.Contains(s.t, status["disruptedPods"], "a")
		condition := status["conditions"].([]any)[0].(map[string]any)
		require.Equal(s.t, "DisruptionAllowed False InsufficientPods", fmt.Sprint(condition["type"], " ", condition["status"], " ", condition["reason"]))

		require.Equal(s.t, overBudget+" The disruption budget pdb does not allow evicting pods currently 0", evict("b", ""))
		s.merge(budget+"/status", `{"status":{"currentHealthy":2}}`)
		require.Equal(s.t, overBudget+" The disruption budget pdb needs 2 healthy pods and has 2 currently 0", evict("b", ""))
		s.must("POST", "policy/v1/poddisruptionbudgets", `{"metadata":{"name":"all"},"spec":{"minAvailable":2,"selector":{}}}`)
		require.Equal(s.t, "500  This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", evict("b", ""))
		require.Equal(s.t, "201 ", evict("pending", ""), "does no work yet")
		s.must("DELETE", "policy/v1/poddisruptionbudgets/all", "")
		s.merge("pods/b/status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
		require.Equal(s.t, "201 ", evict("b", ""), "does no work, and the budget has what it needs")
		s.merge("pods/c/status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
		s.merge(budget+"/status", `{"status":{"currentHealthy":1}}`)
		require.Equal(s.t, overBudget+" The disruption budget pdb needs 2 healthy pods and has 1 currently 0", evict("c", ""))

		require.Equal(s.t, "400 BadRequest name in URL does not match name in Eviction object", s.refused("POST", "pods/c/eviction", `{"metadata":{"name":"x"}}`))
		require.Contains(s.t, s.refused("POST", "pods/c/eviction", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"c"}}`), "400 BadRequest ")
		require.Equal(s.t, notAllowed, s.refused("GET", "pods/c/eviction", ""))
		s.merge("pods/c", `{"metadata":{"finalizers":["example.com/f"]}}`)
		s.merge("pods/c/status", `{"status":{"phase":"Succeeded"}}`)
		require.Equal(s.t, "201 ", evict("c", ""))
		require.NotNil(s.t, s.must("GET", "pods/c", "").Metadata.DeletionTimestamp, "its finalizer holds it")
		require.Equal(s.t, "201 ", evict("c", ""), "once more does no harm")
	})
}

func TestBinding(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a", "g")
		const to = `"target":{"kind":"Node","name":"n"}`
		for _, tc := range []struct{ name, body, want string }{
			{"a", `{"metadata":{"name":"a"},"target":{}}`, "500  target.name: Required value"},
			{"a", `{"metadata":{"name":"a"},"target":{"kind":"Pod","name":"n"}}`, `500  target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`},
			{"a", `{"metadata":{"name":"x"},` + to + `}`, "400 BadRequest name in URL does not match name in Binding object"},
			{"a", `{"metadata":{},` + to + `}`, "400 BadRequest name in URL does not match name in Binding object"},
			{"a", `{"metadata":{"name":"a","uid":"x"},` + to + `}`, "409 Conflict"},
			{"a", `{"metadata":{"name":"a","resourceVersion":"1"},` + to + `}`, "409 Conflict"},
			{"a", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, "400 BadRequest"},
			{"none", `{"metadata":{"name":"none"},` + to + `}`, `404 NotFound pods "none" not found`},
			{"a?dryRun=All", `{"metadata":{"name":"a"},` + to + `}`, "201 "},
			{"a", `{"metadata":{"name":"a","annotations":{"x":"y"}},` + to + `}`, "201 "},
			{"a", `{"metadata":{"name":"a"},"target":{"name":"n"}}`, `409 Conflict Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"`},
		} {
			name, query, _ := strings.Cut(tc.name, "?")
			_, raw := s.do("POST", "pods/"+name+"/binding?"+query, tc.body)
			require.Equal(s.t, tc.want, summary(parse[item](s.t, raw), tc.want), tc.body)
		}
		bound := s.must("GET", "pods/a", "")
		require.Equal(s.t, "n", bound.Spec["nodeName"])
		require.Equal(s.t, "y", bound.Metadata.Annotations["x"])
		require.NotContains(s.t, owners(bound), "f:nodeName", "nobody owns it")
		condition := bound.Status.(map[string]any)["conditions"].([]any)[0].(map[string]any)
		require.Equal(s.t, "PodScheduled True", fmt.Sprint(condition["type"], " ", condition["status"]))

		s.must("POST", "pods", `{"metadata":{"name":"gated"},"spec":{"schedulingGates":[{"name":"x"}],"containers":[{"name":"m","image":"i"}]}}`)
		require.Equal(s.t, `409 Conflict Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates`,
			s.refused("POST", "pods/gated/binding", `{"metadata":{"name":"gated"},`+to+`}`))
		s.merge("pods/g", `{"metadata":{"finalizers":["example.com/f"]}}`)
		s.must("DELETE", "pods/g", "")
		require.Equal(s.t, `409 Conflict Operation cannot be fulfilled on pods/binding "g": pod g is being deleted, cannot be assigned to a host`,
			s.refused("POST", "pods/g/binding", `{"metadata":{"name":"g"},`+to+`}`))
		require.Equal(s.t, notAllowed, s.refused("GET", "pods/a/binding", ""))
	})
}

// The log of a running pod comes from its node, and there is no node.
func TestLog(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		s.must("POST", "pods", `{"metadata":{"name":"two"},"spec":{"initContainers":[{"name":"i","image":"i"}],"containers":[{"name":"m","image":"i"},{"name":"n","image":"i"}]}}`)
		for _, path := range []string{"pods/a/log", "pods/a/log?follow=true", "pods/a/log?previous=true", "pods/two/log?container=n", "pods/two/log?container=i"} {
			code, raw := s.do("GET", path, "")
			require.Equal(s.t, 204, code, path)
			require.Empty(s.t, raw)
		}
		for path, want := range map[string]string{
			"pods/none/log":             `404 NotFound pods "none" not found`,
			"pods/a/log?container=x":    "400 BadRequest container x is not valid for pod a",
			"pods/two/log":              "400 BadRequest a container name must be specified for pod two, choose one of: [i m n]",
			"pods/a/log?tailLines=-1":   `422 Invalid PodLogOptions "a" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`,
			"pods/a/log?limitBytes=0":   `422 Invalid PodLogOptions "a" is invalid: limitBytes: Invalid value: 0: must be greater than 0`,
			"pods/a/log?sinceSeconds=0": `422 Invalid PodLogOptions "a" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0`,
			"pods/a/log?tailLines=x":    `400 BadRequest strconv.ParseInt: parsing "x": invalid syntax`,
		} {
			require.Equal(s.t, want, s.refused("GET", path, ""), path)
		}
		require.Equal(s.t, notAllowed, s.refused("POST", "pods/a/log", `{}`))
		code, _ := s.do("GET", "pods/a/log", "", "Accept", "text/plain")
		require.Equal(s.t, 406, code, "the Accept is of a refusal")
	})
}
