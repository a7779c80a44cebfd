package churn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire"
)

// churnOf returns the output of churn for types of a server while change changes it. change is
// called when churn has the initial state.
func churnOf(t *testing.T, srv *apiservertest.Server, types string, flags churnFlags, change func(ctx context.Context, end func(), client *rest.Client)) ([]churned, string, error) {
	t.Helper()
	endpoint, err := srv.Pipe()
	require.NoError(t, err)
	cfg := &config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}
	client, err := rest.NewClient(cfg, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	var stdout, stderr debugtest.Transcript
	s := debugtest.Onto(&stdout, &stderr)
	flags.AllNamespaces, flags.output.Value = true, "jsonl"
	if flags.period == 0 {
		flags.period = time.Minute
	}
	require.NoError(t, flags.check())
	targets, err := flags.TargetsOf(t.Context(), cfg, types, nil)
	require.NoError(t, err)
	defer targets[0].Client.CloseIdleConnections()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	failed := make(chan error)
	go func() { failed <- flags.watch(ctx, s, targets, terminal.NewConsole(s, false)) }()
	synctest.Wait()
	change(ctx, end, client)
	err = <-failed
	var all []churned
	for line := range strings.Lines(stdout.String()) {
		var r churned
		require.NoError(t, json.Unmarshal([]byte(line), &r), line) // except durations, which have other names
		all = append(all, r)
	}
	return all, stdout.String() + stderr.String(), err
}

func scaleWith(t *testing.T, ctx context.Context, client *rest.Client, manager string, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := rest.ResourceFor[*appsv1.Deployment](client).Patch(ctx, object.Key{Namespace: "shop", Name: "web"}, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager})
	require.NoError(t, err)
}

func deployment(name string) *appsv1.Deployment {
	one := int32(1)
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}
}

// One manager changes one field several times, another one changes the status, and both are
// reported.
func TestChurnReportsManagersAndFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		t.Cleanup(srv.Close)
		_, err := srv.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		require.NoError(t, err)
		all, text, err := churnOf(t, srv, "deployments", churnFlags{keep: []string{"spec.template"}}, func(ctx context.Context, _ func(), client *rest.Client) {
			of := rest.ResourceFor[*appsv1.Deployment](client)
			_, err := of.Create(ctx, deployment("web"), metav1.CreateOptions{FieldManager: "kubectl"})
			require.NoError(t, err)
			for n := range int32(7) {
				time.Sleep(time.Second)
				scaleWith(t, ctx, client, "scaler", 2+n)
			}
			for n := range 3 {
				time.Sleep(time.Second)
				patch := fmt.Sprintf(`{"status":{"readyReplicas":%d}}`, n+1)
				_, err := of.Subresource("status").Patch(ctx, object.Key{Namespace: "shop", Name: "web"}, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubelet"})
				require.NoError(t, err)
			}
			// If another manager writes the same values, only managedFields change.
			_, err = of.Patch(ctx, object.Key{Namespace: "shop", Name: "web"}, types.ApplyYAMLPatchType,
				[]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":8}}`), metav1.PatchOptions{FieldManager: "again"})
			require.NoError(t, err)
			require.NoError(t, of.Delete(ctx, object.Key{Namespace: "shop", Name: "web"}, metav1.DeleteOptions{}))
		})
		require.NoError(t, err, text)
		require.Len(t, all, 1, text)
		r := all[0]
		require.Equal(t, "deployments.apps in all namespaces", r.Type)
		require.Equal(t, 10, r.Changed, text)
		require.Equal(t, 1, r.Added, text)
		require.Equal(t, 1, r.Deleted, text)
		require.Equal(t, 1, r.Unmoving, text)
		require.Equal(t, []count{{"shop/web", r.Events}}, r.Objects.Top)
		fields := map[string][]count{}
		for _, f := range r.Fields {
			fields[f.Name] = f.Managers
		}
		require.Equal(t, []count{{"scaler", 7}}, fields["spec.replicas"], text)
		require.Equal(t, []count{{"kubelet (status)", 3}}, fields["status.readyReplicas"], text)
		require.Contains(t, r.Managers.Top, count{"again", 1}, text)
		for _, want := range []string{
			`{"name":"GenerationChanged","events":4,`, // the status, and writes without a change
			`{"name":"LabelsChanged","events":11,`,    // all updates
			`{"name":"VersionChanged","events":0,`,    // drops resyncs
			`{"name":"Changed, all but status","events":4,`,
			`{"name":"only spec.template","events":11,`, // no change in it
			`{"name":"only metadata","events":`,
		} {
			require.Contains(t, text, want)
		}
	})
}

func TestChurnCountsRepeatedObjects(t *testing.T) {
	c := &churning{synced: make(chan struct{}), states: map[object.Key]packedUntyped{}, objects: counter{most: 1}, fields: counter{most: 1}, managers: counter{most: 1}, of: map[string]*counter{}}
	var err error
	c.savings, err = newSavings(corev1.SchemeGroupVersion.WithKind("ConfigMap"), nil)
	require.NoError(t, err)
	tell := teller(t, c)
	one := settings("a", "1", map[string]any{"x": "1", "y": "1"})
	tell("ADDED", one)
	tell("MODIFIED", one)
	tell("MODIFIED", settings("a", "2", map[string]any{"x": "1", "y": "1"}))
	tell("MODIFIED", settings("a", "3", map[string]any{"x": "2", "y": "2"}))
	tell("MODIFIED", settings("b", "4", nil)) // with no earlier state
	tell("DELETED", settings("b", "5", nil))
	require.Equal(t, churnKinds{Events: 6, Added: 1, Changed: 1, Deleted: 1, Resent: 1, Unmoving: 1, Unheld: 1}, c.kinds)
	require.Equal(t, 1, len(c.fields.named))
	require.Equal(t, 1, c.fields.beyond, "the second field is counted, and not by its name")
	require.Equal(t, 2, c.objects.beyond, "so is the second object")
	r := c.report(time.Second, 10)
	require.Equal(t, remainder{Untold: 1, Counted: 1}, r.MoreFields)
	require.Equal(t, 5, r.Decode.Measured)
	require.Positive(t, r.Decode.Took)
	require.Zero(t, r.Predicates[0].Events, "the objects have no generation")
}

func settings(name, rv string, data map[string]any) untyped {
	o := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": name, "uid": name, "resourceVersion": rv}}
	if data != nil {
		o["data"] = data
	}
	return &unstructured.Unstructured{Object: o}
}

// The number of states and counters is bounded.
func TestChurnMemoryIsBounded(t *testing.T) {
	c := &churning{synced: make(chan struct{}), states: map[object.Key]packedUntyped{}}
	pack := packerOf(t)
	for n := range mostStates + 10 {
		c.hold(pack(settings(fmt.Sprint(n), "1", nil)))
	}
	require.Len(t, c.states, mostStates)
	require.False(t, c.roomy)
	for key := range c.states {
		c.drop(key)
	}
	require.Zero(t, c.bytes)
	c.bytes = mostStateBytes
	require.False(t, c.hold(pack(settings("a", "1", nil))))

	long := strings.Repeat("é", mostPath)
	require.Less(t, len(clipped(long)), mostPath+20)
	require.Contains(t, clipped(long), "(400 bytes)")
	names := counter{most: 2}
	for n := range 100 {
		names.add(fmt.Sprint(n))
	}
	require.Equal(t, 98, names.beyond)
}

// Churn reports that the server loses its history, forbids access, loses the type, and ends.
func TestChurnOutlivesTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		t.Cleanup(srv.Close)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodPending)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
		all, text, err := churnOf(t, srv, "pods,nodes", churnFlags{}, func(context.Context, func(), *rest.Client) {
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodRunning)
			synctest.Wait()
			srv.Down()
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodRunning)
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-3"}, corev1.PodRunning)
			require.NoError(t, srv.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: "web-1"}))
			srv.Compact()
			srv.Up()
			time.Sleep(30 * time.Second)
			srv.SetAuthorizer(apiservertest.Deny("", "pods"))
			srv.Restart()
		})
		require.NoError(t, err)
		require.Len(t, all, 2, text)
		require.Equal(t, 1, all[0].Changed, text)
		require.Equal(t, 3, all[0].Missed, text)
		require.EqualValues(t, 1, all[0].Relists, text)
		require.Contains(t, all[0].Failure, "forbidden", text)
		require.Zero(t, all[1].Events, text)
	})
}

func TestChurnThatEndsEarlyReportsItsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		t.Cleanup(srv.Close)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodPending)
		began := time.Now()
		all, text, err := churnOf(t, srv, "pods", churnFlags{period: time.Hour}, func(_ context.Context, end func(), _ *rest.Client) {
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodRunning)
			time.Sleep(3 * time.Second)
			end()
		})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, 1, all[0].Changed, text)
		require.Contains(t, text, `"forSeconds":3,`)
	})
}

// Values of Secrets are not shown, and names of objects and fields cannot control the terminal.
func TestChurnShowsNamesAndNoValues(t *testing.T) {
	r := &churned{Type: "secrets", churnKinds: churnKinds{Events: 1}, Objects: ranking{Top: []count{{"shop/\x1b[2J\u202e", 1}}}, Fields: []churnedAt{{count{"data.a\tb\nc", 1}, []count{{"\x07bell", 1}}}}}
	var b strings.Builder
	require.NoError(t, (&churnFlags{}).write(&b, r, false))
	for _, bad := range []string{"\x1b", "\x07", "\u202e", "\t"} {
		require.NotContains(t, b.String(), bad)
	}
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		t.Cleanup(srv.Close)
		_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, StringData: map[string]string{}, Data: map[string][]byte{"password": []byte("hidden")}})
		require.NoError(t, err)
		_, text, err := churnOf(t, srv, "secrets", churnFlags{}, func(context.Context, func(), *rest.Client) {
			_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"password": []byte("secret")}})
			require.NoError(t, err)
		})
		require.NoError(t, err)
		require.Contains(t, text, "data.password")
		for _, value := range []string{"hidden", "secret\"", "aGlkZGVu", "c2VjcmV0"} {
			require.NotContains(t, text, value)
		}
	})
}

func TestOwnerOfAField(t *testing.T) {
	entry := func(manager, sub, at, fields string) any {
		e := map[string]any{"manager": manager, "operation": "Update", "subresource": sub, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": decoded(t, fields)}
		if at != "" {
			e["time"] = at
		}
		return e
	}
	of := func(entries ...any) untyped {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": entries}}}
	}
	const early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
	shared := `{"f:spec":{"f:replicas":{},"f:selector":{}}}`
	was := of(entry("a", "", early, shared), entry("b", "", early, shared))
	is := of(
		entry("b", "", early, shared),
		entry("a", "", late, shared),
		entry("k", "status", late, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}},"f:metadata":{"f:annotations":{"f:a.b/c":{}},"f:finalizers":{".":{},"v:\"x\"":{}}}}`),
		entry("", "", "", `{"f:data":"not a tree"}`),
	)
	all := ownersOf(was, is)
	for path, want := range map[string]string{
		"spec.replicas":                   "a", // the last writer of two
		"spec.selector.matchLabels.app":   "a", // owned as a whole
		"status.conditions[Ready].status": "k (status)",
		"status.conditions[Gone].status":  nobody,
		"metadata.annotations[a.b/c]":     "k (status)",
		"metadata.finalizers[0]":          "k (status)",
		"data.x":                          nobody,
		"[":                               nobody,
		"":                                "a",
	} {
		require.Equal(t, want, all.of(path, true), path)
	}
	require.Equal(t, "a", all.of("spec.paused", false), "who wrote last took it away")
	require.Equal(t, nobody, ownersOf(of(), of()).last())
	none := of(entry("b", "", early, shared), entry("a", "", late, shared))
	require.Equal(t, "a", ownersOf(none, none).of("spec.replicas", true), "the later one, where neither entry is new")
}

func decoded(t *testing.T, text string) (tree any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &tree))
	return tree
}

// packerOf packs objects.
func packerOf(t *testing.T) func(untyped) packedUntyped {
	t.Helper()
	by := wire.NewPacker(nil)
	return func(o untyped) packedUntyped {
		packed, err := by.Pack(o)
		require.NoError(t, err)
		return packed
	}
}

// teller returns a function that delivers events.
func teller(t *testing.T, c *churning) func(what watch.EventType, o untyped) {
	t.Helper()
	pack := packerOf(t)
	return func(what watch.EventType, o untyped) {
		c.event(&wire.Event[packedUntyped]{Type: what, Object: pack(o)})
	}
}
