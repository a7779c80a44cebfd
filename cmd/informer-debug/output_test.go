package main

import (
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/internal/printable"
)

var update = flag.Bool("update", false, "write what the tests compare with")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// shop is a cluster with two detailed pods, whose texts include terminal escapes.
func shop(t *testing.T) string {
	t.Helper()
	srv := apiservertest.New(apiservertest.Options{Seed: 1})
	t.Cleanup(srv.Close)
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	require.NoError(t, err)
	for n, name := range []string{"web-1", "web-2"} {
		_, err := srv.Put(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, Labels: map[string]string{"app": "web", "example.com/tier": "t" + name[4:]},
				Annotations: map[string]string{"note": "a\u009b2J\x1b[2J\u202eb", "lines": "one\ntwo\n", "number": "1"},
			},
			Spec:   corev1.PodSpec{NodeName: []string{"n2", "n1"}[n], Containers: []corev1.Container{{Name: "c", Image: "i:" + name}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0." + name[4:]},
		})
		require.NoError(t, err)
	}
	return "--server=" + endpoint.URL
}

func TestGetInEachForm(t *testing.T) {
	server := shop(t)
	template := filepath.Join(t.TempDir(), "template")
	for _, c := range []struct {
		want string
		args []string
		file string // of the template, if the argument ends with =FILE
	}{
		{"pods/web-1\npods/web-2\n", []string{"pods", "-o", "name"}, ""},
		{"web-1 web-2", []string{"pods", "-o", "jsonpath={.items[*].metadata.name}"}, ""},
		{"web-1", []string{"pods/web-1", "-o", "jsonpath={.metadata.name}"}, ""},
		{"web-2\tn1\nweb-1\tn2\n", []string{"pods", "--sort-by", "{.spec.nodeName}", "-o", `jsonpath={range .items[*]}{.metadata.name}{"\t"}{.spec.nodeName}{"\n"}{end}`}, ""},
		{"web-2 ", []string{"pods", "-o", `jsonpath={range .items[?(@.spec.nodeName=="n1")]}{.metadata.name} {end}`}, ""},
		{"web-1,web-2,", []string{"pods", "-o", "go-template={{range .items}}{{.metadata.name}},{{end}}"}, ""},
		{"true", []string{"pods", "web-1", "-o", "go-template={{eq .metadata.generation 1}}"}, ""},
		{"NAME    IMAGE     NONE\nweb-1   i:web-1   <none>\nweb-2   i:web-2   <none>\n", []string{"pods", "-o", "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image,NONE:.a.b"}, ""},
		{"web-2   n1\nweb-1   n2\n", []string{"pods", "--no-headers", "--sort-by=.spec.nodeName", "-o", "custom-columns=NAME:{.metadata.name},NODE:spec.nodeName"}, ""},
		{"NAME    NODE\nweb-1   n2\n", []string{"pods/web-1", "-o", "custom-columns-file=FILE"}, "NAME  NODE\n.metadata.name  .spec.nodeName\n"},
		{"web-1", []string{"pods/web-1", "-o", "jsonpath-file=FILE"}, "{.metadata.name}"},
		{"web-1", []string{"pods/web-1", "-o", "go-template-file=FILE"}, "{{.metadata.name}}"},
		{"NAMESPACE   NAME    RV    GENERATION   OWNER   APP   TIER   LABELS\nshop        web-2   102   1            -       web   t2     app=web,example.com/tier=t2\nshop        web-1   101   1            -       web   t1     app=web,example.com/tier=t1\n",
			[]string{"pods", "-L", "app,example.com/tier", "--show-labels", "--sort-by=.spec.nodeName"}, ""},
		{"NAMESPACE   NAME    RV    GENERATION   OWNER\nshop        web-1   101   1            -\n", []string{"pods/web-1", "-o", "table"}, ""},
	} {
		require.NoError(t, os.WriteFile(template, []byte(c.file), 0o600))
		args := append([]string{"get", "-n", "shop", server}, c.args...)
		args[len(args)-1] = strings.Replace(args[len(args)-1], "=FILE", "="+template, 1)
		r := invoke(t, args...)
		require.Equal(t, exit.CodeOK, r.Code, "%v: %s", args, r.ErrOut)
		require.Equal(t, c.want, r.Out, c.args)
	}
}

// JSON and YAML are valid, decode to the object, and contain no terminal escapes.
func TestGetWritesObjects(t *testing.T) {
	server := shop(t)
	var list, one struct {
		Kind     string
		Items    []corev1.Pod
		Metadata metav1.ObjectMeta
	}
	check := func(text string) {
		t.Helper()
		for _, r := range text {
			require.True(t, r == '\n' || !printable.Control(r), "%q", text)
		}
	}
	r := invoke(t, "get", "pods", "-n", "shop", "-o", "json", server)
	require.NoError(t, json.Unmarshal([]byte(r.Out), &list), r.Out)
	check(r.Out)
	require.Equal(t, "List", list.Kind)
	require.Len(t, list.Items, 2)
	note := "a\u009b2J\x1b[2J\u202eb"
	require.Equal(t, note, list.Items[0].Annotations["note"])

	r = invoke(t, "get", "pods", "-n", "shop", "-o", "jsonl", server)
	check(r.Out)
	require.Len(t, r.Lines(), 2)
	for _, line := range r.Lines() {
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		require.Equal(t, note, one.Metadata.Annotations["note"])
	}

	r = invoke(t, "get", "pods/web-1", "-n", "shop", "-o", "yaml", server)
	check(r.Out)
	require.NoError(t, yaml.UnmarshalStrict([]byte(r.Out), &map[string]any{}))
	var pod corev1.Pod
	require.NoError(t, yaml.Unmarshal([]byte(r.Out), &pod))
	require.Equal(t, list.Items[0].Annotations, pod.Annotations)
	require.Equal(t, list.Items[0].Spec, pod.Spec)
	pod.UID, pod.CreationTimestamp = "", metav1.Time{}
	golden(t, "get.yaml", strings.NewReplacer(string(list.Items[0].UID), "UID", list.Items[0].CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"), "TIME").Replace(r.Out))

	r = invoke(t, "watch", "pods/web-1", "-n", "shop", "-o", "jsonl", "-c", "1", server)
	check(r.Out)
	require.Contains(t, r.Out, `\u009b2J`)
	require.True(t, json.Valid([]byte(r.Out)))
}

// A terminal gets no control characters from a template; a pipe gets the text unchanged.
func TestTemplatesOnATerminal(t *testing.T) {
	server := shop(t)
	for _, form := range []string{`jsonpath={.metadata.annotations.note}{"\n"}`, `go-template={{.metadata.annotations.note}}{{"\n"}}`} {
		for terminal, want := range map[bool]string{true: "a 2J [2J b\n", false: "a\u009b2J\x1b[2J\u202eb\n"} {
			var stdout, stderr debugtest.Transcript
			s := around(&stdout, &stderr)
			s.OutTerminal = terminal
			r := finish(t, t.Context(), []string{"get", "pods/web-1", "-n", "shop", "-o", form, server}, s)
			require.Equal(t, want, r.Out, r.ErrOut)
		}
	}
	r := invoke(t, "get", "pods/web-1", "-n", "shop", "-o", "custom-columns=NOTE:.metadata.annotations.note", server)
	require.Equal(t, "NOTE\na 2J [2J b\n", r.Out)
}

func TestGetRefusesUnsupportedRequests(t *testing.T) {
	blind := httptest.NewServer(program(t, false))
	defer blind.Close()
	without := "--attach=" + blind.URL
	server := shop(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"pods", "-o", "xml", server}, exit.CodeUsage, "want one of table, wide, json, jsonl, yaml, name, jsonpath=TEMPLATE, custom-columns=HEADER:PATH,..."},
		{[]string{"pods", "-o", "jsonpath", server}, exit.CodeUsage, "the template is missing: use, for example, jsonpath='{.metadata.name}'"},
		{[]string{"pods", "-o", "jsonpath={.a", server}, exit.CodeUsage, "unclosed action"},
		{[]string{"pods", "-o", "go-template={{.a", server}, exit.CodeUsage, "unclosed action"},
		{[]string{"pods", "-o", "go-template={{.metadata.a.b.c | len}}", server}, exit.CodeRuntime, "-o go-template: "},
		{[]string{"pods", "-o", "custom-columns=NAME", server}, exit.CodeUsage, "want HEADER:PATH"},
		{[]string{"pods", "-o", "jsonpath-file=/none", server}, exit.CodeUsage, "no such file"},
		{[]string{"pods", "--sort-by", "{.a", server}, exit.CodeUsage, "--sort-by: jsonpath"},
		{[]string{"pods", "-o", "json", "-L", "app", server}, exit.CodeUsage, "--show-labels and --label-columns only apply to tables"},
		{[]string{"pods", "--sort-by=.metadata.creationTimestamp", without}, exit.CodeUsage, "no object has a visible value there: this process shows no contents"},
		{[]string{"--sort-by=.name", without}, exit.CodeUsage, "apply to objects: specify a TYPE"},
	} {
		r := invoke(t, append([]string{"get"}, c.args...)...)
		require.Equal(t, c.code, r.Code, "%v: %s", c.args, r.ErrOut)
		require.Contains(t, r.ErrOut, c.want)
		require.Empty(t, r.Out)
	}
	r := invoke(t, "get", "pods", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata['name','labels.is']}", without)
	require.Equal(t, "bad good bad good", r.Out)
	require.Contains(t, r.ErrOut, "only the metadata of 2 of 2 objects is shown: this process shows no contents")
	r = invoke(t, "get", "-o", "jsonpath={.items[*].reflector.resource}", without)
	require.Equal(t, "pods", r.Out)
	r = invoke(t, "get", "-o", "custom-columns=NAME:.reflector.resource,OBJECTS:.objects", without)
	require.Equal(t, "NAME   OBJECTS\npods   2\n", r.Out)
	r = invoke(t, "get", "pods", "--sort-by=.metadata.labels.is", "--no-headers", without)
	require.Regexp(t, `^shop +bad .*\nshop +good `, r.Out)
}
