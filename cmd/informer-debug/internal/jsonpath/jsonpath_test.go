package jsonpath

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// sample is the object from Kubernetes' own documentation, with a few additions.
const sample = `{
  "kind": "List",
  "items": [
    {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
     "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}], "ready": true, "pods": 3}},
    {"kind": "None", "metadata": {"name": "127.0.0.2"},
     "status": {"capacity": {"cpu": "8"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}], "pods": 12, "none": null}}
  ],
  "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}}]
}`

func tree(t testing.TB, text string) (v any) {
	t.Helper()
	require.NoError(t, utiljson.Unmarshal([]byte(text), &v))
	return v
}

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"kind is {.kind}":                                               "kind is List",
		"{@.kind} {$.kind} {['kind']}":                                  "List List List",
		"{..metadata.name}":                                             "127.0.0.1 127.0.0.2",
		"{.items[*].metadata.name}":                                     "127.0.0.1 127.0.0.2",
		"{.items[*].status.capacity}":                                   `{"cpu":"4"} {"cpu":"8"}`,
		"{.users[0].name}":                                              "myself",
		"{.users[-1].name}":                                             "e2e",
		"{.users[-1:].name}":                                            "e2e",
		"{.users[::2].name}":                                            "myself",
		"{.users[1,0].name}":                                            "e2e myself",
		"{.users[:-1].name}":                                            "myself",
		"{.items[*]['metadata.name', 'status.capacity']}":               `127.0.0.1 127.0.0.2 {"cpu":"4"} {"cpu":"8"}`,
		`{.users[?(@.name=="e2e")].user.password}`:                      "secret",
		`{.users[?( @.name != 'e2e' )].name}`:                           "myself",
		`{.items[?(@.status.pods>3)].metadata.name}`:                    "127.0.0.2",
		`{.items[?(@.status.pods>=3)].metadata.name}`:                   "127.0.0.1 127.0.0.2",
		`{.items[?(@.status.pods<12)].metadata.name}`:                   "127.0.0.1",
		`{.items[?(@.status.ready)].metadata.name}`:                     "127.0.0.1",
		`{.items[?(@.status.ready==true)].metadata.name}`:               "127.0.0.1",
		`{.items[*].status.addresses[?(@.type=="another")].address}`:    "127.0.0.3",
		`{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}`: `[127.0.0.1, {"cpu":"4"}] [127.0.0.2, {"cpu":"8"}] `,
		`{range .items[*]}{.metadata.name}{"\t"}{end}`:                  "127.0.0.1\t127.0.0.2\t",
		`{range .items[*]}{.metadata.name}:{range .status.addresses[*]} {@.address}{ end };{end}`: "127.0.0.1: 127.0.0.1;127.0.0.2: 127.0.0.2 127.0.0.3;",
		`{range .none[*]}x{end}`:                                                   "",
		`{range .items[*]}{end}`:                                                   "",
		`{.items[0].metadata.labels.kubernetes\.io/hostname}`:                      "127.0.0.1",
		`{.items[0].metadata.labels['kubernetes\.io/hostname']}`:                   "127.0.0.1",
		`{.items[0].metadata.labels.*}`:                                            "127.0.0.1",
		`{.items[0].status.pods} {.items[0].status.ready} {.items[1].status.none}`: "3 true null",
		`{.users[0]} {.users[0].user}`:                                             `{"name":"myself","user":{}} {}`,
		`no {"{"}places{"}"}, "quotes" stay {.none}`:                               `no {places}, "quotes" stay `,
		"": "",
	} {
		template, err := Parse(text)
		require.NoError(t, err, text)
		var b strings.Builder
		require.NoError(t, template.Execute(&b, tree(t, sample)), text)
		require.Equal(t, want, b.String(), text)
	}
}

func TestBadTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"{.kind":                "unclosed action",
		"{":                     "unclosed action",
		"{.items[}":             "unterminated array",
		"{.items[x]}":           "invalid array index x",
		"{.items[?(@.a=~/b/)]}": "unrecognized character",
		`{"open}`:               "unterminated quoted string",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestPaths(t *testing.T) {
	type m = map[string]any
	tree := m{
		"metadata": m{"labels": m{"app.io/name": "web"}},
		"spec":     m{"containers": []any{m{"name": "a", "image": "x"}, m{"name": "b", "image": "y"}}},
		"n":        int64(3),
	}
	for text, want := range map[string][]any{
		"{.n}":                          {int64(3)},
		" { .n } ":                      {int64(3)},
		"n":                             {int64(3)},
		"$.n":                           {int64(3)},
		"metadata.labels":               {m{"app.io/name": "web"}},
		`.metadata.labels.app\.io/name`: {"web"},
		".spec.containers[*].image":     {"x", "y"},
		".spec.containers[-1].name":     {"b"},
		`{.spec.containers[?(@.name=="b")].image}`: {"y"},
		".spec.containers[?(@.name)].name":         {"a", "b"},
		".metadata.*.*":                            {"web"},
		"..image":                                  {"x", "y"},
		".spec..name":                              {"a", "b"},
		".spec.containers[2].name":                 nil,
		".spec.containers.name":                    nil,
		".spec.none.name":                          nil,
		".n.m":                                     nil,
		".n[0]":                                    nil,
	} {
		p, err := ParsePath(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p.Find(tree), text)
		require.Equal(t, text, p.String())
	}
	for _, text := range []string{"", "{}", "{.a", ".a[", ".a[x]", "{range .items[*]}{.a}{end}", ".", "{.a}{.b}", "a}", `"a"`} {
		_, err := ParsePath(text)
		require.Error(t, err, text)
	}
}

// full takes nothing.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestFailingOutput(t *testing.T) {
	for _, text := range []string{"x", "{.kind}", "{range .items[*]}x{end}"} {
		template, err := Parse(text)
		require.NoError(t, err)
		require.ErrorIs(t, template.Execute(full{}, tree(t, sample)), errFull)
	}
}
