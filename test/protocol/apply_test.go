package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apply applies a configuration, given as JSON, and returns the code and the answer.
func (s *session) apply(path, manager, body string) (int, item) {
	s.t.Helper()
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	code, raw := s.do("PATCH", path+mark+"fieldManager="+manager, body, "Content-Type", applyPatch)
	return code, parse[item](s.t, raw)
}

// applied is apply for a configuration that must be accepted.
func (s *session) applied(path, manager, body string) item {
	s.t.Helper()
	code, got := s.apply(path, manager, body)
	require.Less(s.t, code, 300, "%s by %s: %s", path, manager, got.Message)
	return got
}

func configMap(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}%s}`, name, rest)
}

// owners formats metadata.managedFields as "manager operation[ subresource]: fields", sorted.
func owners(o item) string {
	var lines []string
	for _, e := range o.Metadata.ManagedFields {
		line := e.Manager + " " + string(e.Operation)
		if e.Subresource != "" {
			line += " " + e.Subresource
		}
		lines = append(lines, line+": "+leaves(e.FieldsV1))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// leaves lists the leaves of a set of fields, sorted: "f:data f:a".
func leaves(fields *metav1.FieldsV1) string {
	var tree map[string]any
	if err := json.Unmarshal(fields.Raw, &tree); err != nil {
		return err.Error()
	}
	var list []string
	var walk func(path string, tree map[string]any)
	walk = func(path string, tree map[string]any) {
		if len(tree) == 0 {
			list = append(list, strings.TrimPrefix(path, "/"))
		}
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			walk(path+"/"+name, tree[name].(map[string]any))
		}
	}
	walk("", tree)
	return strings.Join(list, " ")
}

func TestApplyRemovesOmittedFields(t *testing.T) {
	forEach(t, func(s *session) {
		made := s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1","b":"1"}`))
		require.Equal(s.t, "me Apply: f:data/f:a f:data/f:b", owners(made))
		less := s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1"}`))
		require.Equal(s.t, map[string]string{"a": "1"}, less.Data)
		require.Equal(s.t, "me Apply: f:data/f:a", owners(less))
		again := s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1"}`))
		require.Equal(s.t, less.Metadata.ResourceVersion, again.Metadata.ResourceVersion, "nothing new")
		none := s.applied("configmaps/c", "me", configMap("c", ``))
		require.Empty(s.t, none.Data)
		require.Empty(s.t, owners(none))

		dry := s.applied("configmaps/c?dryRun=All", "me", configMap("c", `,"data":{"a":"1"}`))
		require.Equal(s.t, map[string]string{"a": "1"}, dry.Data)
		require.Empty(s.t, s.must("GET", "configmaps/c", "").Data)
	})
}

func TestApplyConflicts(t *testing.T) {
	forEach(t, func(s *session) {
		s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1","b":"1","c":"1"}`))
		code, status := s.apply("configmaps/c", "you", configMap("c", `,"data":{"a":"2"}`))
		require.Equal(s.t, 409, code)
		require.Equal(s.t, metav1.StatusReasonConflict, status.Reason)
		require.Equal(s.t, `Apply failed with 1 conflict: conflict with "me": .data.a`, status.Message)
		require.Equal(s.t, []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "me"`, Field: ".data.a"},
		}, status.Details.Causes)

		s.must("PATCH", "configmaps/c?fieldManager=patcher", `{"data":{"b":"2"}}`, "Content-Type", mergePatch)
		code, status = s.apply("configmaps/c", "you", configMap("c", `,"data":{"a":"2","b":"3","d":"1"}`))
		require.Equal(s.t, 409, code)
		require.Regexp(s.t, `^Apply failed with 2 conflicts: conflicts with "me":\n- .data.a\nconflicts with "patcher" using v1 at [-:TZ0-9]+:\n- .data.b$|`+
			`^Apply failed with 2 conflicts: conflicts with "me":\n- .data.a\nconflicts with "patcher" using v1:\n- .data.b$`, status.Message)
		require.Len(s.t, status.Details.Causes, 2)
		require.NotContains(s.t, s.must("GET", "configmaps/c", "").Data, "d", "all or nothing")

		forced := s.applied("configmaps/c?force=true", "you", configMap("c", `,"data":{"a":"2","b":"3"}`))
		require.Equal(s.t, map[string]string{"a": "2", "b": "3", "c": "1"}, forced.Data)
		require.Equal(s.t, "me Apply: f:data/f:c\nyou Apply: f:data/f:a f:data/f:b", owners(forced))
	})
}

func TestFieldsAreShared(t *testing.T) {
	forEach(t, func(s *session) {
		s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1","mine":"1"}`))
		shared := s.applied("configmaps/c", "you", configMap("c", `,"data":{"a":"1","yours":"1"}`))
		require.Equal(s.t, "me Apply: f:data/f:a f:data/f:mine\nyou Apply: f:data/f:a f:data/f:yours", owners(shared))
		one := s.applied("configmaps/c", "me", configMap("c", ``))
		require.Equal(s.t, map[string]string{"a": "1", "yours": "1"}, one.Data, "what another manager has too stays")
		code, _ := s.apply("configmaps/c", "me", configMap("c", `,"data":{"a":"2"}`))
		require.Equal(s.t, 409, code)
		none := s.applied("configmaps/c", "you", configMap("c", ``))
		require.Empty(s.t, none.Data)
	})
}

func TestUpdatesOwnWhatTheyChange(t *testing.T) {
	forEach(t, func(s *session) {
		made := s.must("POST", "configmaps", `{"metadata":{"name":"c","labels":{"l":"1"}},"data":{"a":"1","b":"1"}}`)
		require.Equal(s.t, "protocol-test Update: f:data/. f:data/f:a f:data/f:b f:metadata/f:labels/. f:metadata/f:labels/f:l", owners(made))
		s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1","c":"1"}`))
		taken := s.must("PUT", "configmaps/c?fieldManager=putter", `{"metadata":{"name":"c"},"data":{"a":"2","b":"1"}}`)
		require.Equal(s.t, "protocol-test Update: f:data/. f:data/f:b\nputter Update: f:data/f:a", owners(taken), "c is gone, and so are the labels")
		code, status := s.apply("configmaps/c", "me", configMap("c", `,"data":{"a":"1"}`))
		require.Equal(s.t, 409, code)
		require.Contains(s.t, status.Message, `conflict with "putter" using v1`)
		same := s.must("PUT", "configmaps/c?fieldManager=other", `{"metadata":{"name":"c"},"data":{"a":"2","b":"1"}}`)
		require.Equal(s.t, taken.Metadata.ResourceVersion, same.Metadata.ResourceVersion, "who changes nothing owns nothing")

		back := s.must("GET", "configmaps/c", "")
		raw, err := json.Marshal(map[string]any{"metadata": back.Metadata, "data": map[string]string{"a": "2", "b": "1"}})
		require.NoError(s.t, err)
		same = s.must("PUT", "configmaps/c?fieldManager=other", string(raw))
		require.Equal(s.t, back.Metadata.ResourceVersion, same.Metadata.ResourceVersion, "also with what it was told")

		reset := s.must("PATCH", "configmaps/c", `{"metadata":{"managedFields":[{}]}}`, "Content-Type", mergePatch)
		require.Empty(s.t, owners(reset), "an empty entry gives up all of them")
		s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"2","n":"1"}`))
		first := s.must("GET", "configmaps/c", "")
		require.Equal(s.t, "before-first-apply Update: f:data/. f:data/f:a f:data/f:b\nme Apply: f:data/f:a f:data/f:n", owners(first))
	})
}

func deployment(spec string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":` + spec + `}}}`
}

func TestApplyMergesLists(t *testing.T) {
	forEach(t, func(s *session) {
		path := "apps/v1/deployments/d"
		s.applied(path, "me", deployment(`{"containers":[{"name":"m","image":"i","ports":[{"containerPort":80}],"args":["a","b"],"env":[{"name":"A","value":"1"}]}]}`))
		both := s.applied(path, "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","finalizers":["example.com/y"]},
			"spec":{"template":{"spec":{"containers":[{"name":"m","ports":[{"containerPort":80,"protocol":"UDP"}],"env":[{"name":"B","value":"2"}]},{"name":"side","image":"s"}]}}}}`)
		require.Equal(s.t, []string{"m", "side"}, names(containers(both)))
		m := containers(both)[0].(map[string]any)
		require.Len(s.t, m["ports"], 2, "told apart by port and protocol")
		require.Equal(s.t, []string{"A", "B"}, names(m["env"].([]any)))
		yours := `you Apply: f:metadata/f:finalizers/v:"example.com/y"`
		require.Contains(s.t, owners(both), yours)
		require.Contains(s.t, owners(both), `f:containers/k:{"name":"side"}/f:image`)

		code, status := s.apply(path, "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},
			"spec":{"template":{"spec":{"containers":[{"name":"m","args":["a"]}]}}}}`)
		require.Equal(s.t, 409, code)
		require.Equal(s.t, `.spec.template.spec.containers[name="m"].args`, status.Details.Causes[0].Field, "a plain list is one field")

		mine := s.applied(path, "you", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}}`)
		require.Equal(s.t, []string{"m"}, names(containers(mine)))
		require.Len(s.t, containers(mine)[0].(map[string]any)["ports"], 1)
		require.Empty(s.t, mine.Metadata.Finalizers)
		require.NotContains(s.t, owners(mine), "you")

		code, status = s.apply(path, "me", deployment(`{"containers":[{"name":"m","image":"i"},{"name":"m","image":"j"}]}`))
		require.Equal(s.t, 500, code)
		require.Contains(s.t, status.Message, `duplicate entries for key [name="m"]`)
	})
}

func containers(o item) []any {
	return o.Spec["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
}

func names(list []any) []string {
	var all []string
	for _, o := range list {
		all = append(all, o.(map[string]any)["name"].(string))
	}
	return all
}

// An applied number is stored like a created one, so a later write that does not change it changes no spec.
func TestAppliedNumbersStayWhole(t *testing.T) {
	forEach(t, func(s *session) {
		const path = "example.com/v1/widgets/w"
		made := s.applied(path, "me", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}`)
		labelled := s.merge(path, `{"metadata":{"labels":{"a":"b"}}}`)
		require.Equal(s.t, made.Metadata.Generation, labelled.Metadata.Generation)
	})
}

func TestApplyAndSubresources(t *testing.T) {
	forEach(t, func(s *session) {
		path, kind := "example.com/v1/widgets/w", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"`
		code, _ := s.apply(path+"/status", "me", kind+`},"status":{"seen":1}}`)
		require.Equal(s.t, 404, code, "a status is not created")
		made := s.applied(path, "me", kind+`,"finalizers":["example.com/me"]},"spec":{"size":1,"list":["a"]},"status":{"seen":1}}`)
		require.Nil(s.t, made.Status)
		require.Equal(s.t, `me Apply: f:metadata/f:finalizers/v:"example.com/me" f:spec/f:list f:spec/f:size`, owners(made))

		status := s.applied(path+"/status", "me", kind+`},"spec":{"size":2},"status":{"seen":2}}`)
		require.Equal(s.t, 1.0, status.Spec["size"])
		require.Equal(s.t, map[string]any{"seen": 2.0}, status.Status)
		require.Equal(s.t, `me Apply status: f:status/f:seen`+"\n"+owners(made), owners(status))

		code, refused := s.apply(path+"/status", "you", kind+`},"status":{"seen":3}}`)
		require.Equal(s.t, 409, code)
		require.Equal(s.t, `Apply failed with 1 conflict: conflict with "me" with subresource "status": .status.seen`, refused.Message)
		s.merge(path+"/status?fieldManager=you", `{"status":{"seen":3,"more":1}}`)
		got := s.must("GET", path, "")
		require.Contains(s.t, owners(got), "you Update status: f:status/f:more f:status/f:seen")
		require.NotContains(s.t, owners(got), "me Apply status")

		spec := s.applied(path, "you", kind+`,"finalizers":["example.com/you"]},"spec":{"other":1}}`)
		require.ElementsMatch(s.t, []string{"example.com/me", "example.com/you"}, spec.Metadata.Finalizers)
		require.EqualValues(s.t, 2, spec.Metadata.Generation)
		code, refused = s.apply(path, "you", kind+`},"spec":{"list":["b"]}}`)
		require.Equal(s.t, 409, code, "a list is one field")
		require.Equal(s.t, ".spec.list", refused.Details.Causes[0].Field)

		// Before 1.36 the server also recorded an owner of the labels that it ignored.
		labelled := s.applied(path+"/status", "labels", kind+`,"labels":{"l":"1"}},"status":{"labelled":1}}`)
		require.Empty(s.t, labelled.Metadata.Labels)

		parts := func(parts string) string { return kind + `},"spec":{"parts":` + parts + `}}` }
		s.applied(path, "me", parts(`[{"name":"a","size":1}]`))
		both := s.applied(path, "you", parts(`[{"name":"b","size":1}]`))
		require.Equal(s.t, []string{"a", "b"}, names(both.Spec["parts"].([]any)), "as the definition says")
		code, refused = s.apply(path, "you", parts(`[{"name":"a","size":2}]`))
		require.Equal(s.t, 409, code)
		require.Equal(s.t, `.spec.parts[name="a"].size`, refused.Details.Causes[0].Field)

		s.pods("p")
		p := s.applied("pods/p/status", "kubelet", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"status":{"phase":"Running",
			"conditions":[{"type":"Ready","status":"True"}]}}`)
		require.Contains(s.t, owners(p), `kubelet Apply status: f:status/f:conditions/k:{"type":"Ready"}/. `+
			`f:status/f:conditions/k:{"type":"Ready"}/f:status f:status/f:conditions/k:{"type":"Ready"}/f:type f:status/f:phase`)
	})
}

func TestApplyRefusals(t *testing.T) {
	forEach(t, func(s *session) {
		s.applied("configmaps/c", "me", configMap("c", `,"data":{"a":"1"}`))
		for _, tc := range []struct {
			what, path, body string
			code             int
			message          string
		}{
			{"no manager", "configmaps/c", configMap("c", ``), 422, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
			{"another kind", "configmaps/c?fieldManager=me", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c"}}`, 400, "invalid object type: /v1, Kind=Secret"},
			{"no kind", "configmaps/c?fieldManager=me", `{"metadata":{"name":"c"}}`, 400, "invalid object type: /, Kind="},
			{"managed fields", "configmaps/c?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","managedFields":[{"manager":"x"}]}}`, 400, "metadata.managedFields must be nil"},
			{"an old version", "configmaps/c?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"1"},"data":{"a":"2"}}`, 409,
				`Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`},
			{"another name", "configmaps/c?fieldManager=me", configMap("d", ``), 400, "the name of the object (d) does not match the name on the URL (c)"},
			{"no name", "configmaps/c?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap"}`, 200, ""},
			{"no name of a new one", "configmaps/d?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap"}`, 400, "the name of the object (d based on URL) was undeterminable: name must be provided"},
			{"a UID of a new one", "configmaps/d?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","uid":"x"}}`, 409,
				`Operation cannot be fulfilled on configmaps "d": uid mismatch: the provided object specified uid x, and no existing object was found`},
			{"another namespace", "configmaps/c?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"x"}}`, 400, "the namespace of the provided object does not match the namespace sent on the request"},
			{"no YAML", "configmaps/c?fieldManager=me", "a: [", 400, "yaml: line 1: did not find expected node content"}, // each version has its own text before it
		} {
			code, raw := s.do("PATCH", tc.path, tc.body, "Content-Type", applyPatch)
			require.True(s.t, strings.HasSuffix(parse[item](s.t, raw).Message, tc.message), "%s: %s", tc.what, raw)
			require.Equal(s.t, tc.code, code, tc.what)
		}
	})
}
