package e2e

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/wire"
)

func TestWriting(t *testing.T) {
	client, ns := admin(t)
	ctx := t.Context()
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	key := object.Key{Name: "c"}
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, made.UID)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	generated, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Regexp(t, `^g-.{5}$`, generated.Name)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dry"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	_, err = maps.Get(ctx, object.Key{Name: "dry"}, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	changed := made.DeepCopy()
	changed.Data["b"] = "2"
	updated, err := maps.Update(ctx, changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, updated.Data)
	_, err = maps.Update(ctx, changed, metav1.UpdateOptions{})
	require.True(t, apierrors.IsConflict(err), "%v", err)

	for _, p := range []struct {
		kind types.PatchType
		body string
		want map[string]string
		opts metav1.PatchOptions
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"j"}]`, map[string]string{"a": "j", "b": "2"}, metav1.PatchOptions{}},
		{types.MergePatchType, `{"data":{"b":null}}`, map[string]string{"a": "j"}, metav1.PatchOptions{}},
		{types.StrategicMergePatchType, `{"data":{"c":"s"}}`, map[string]string{"a": "j", "c": "s"}, metav1.PatchOptions{}},
		{types.ApplyYAMLPatchType, "apiVersion: v1\nkind: ConfigMap\ndata: {d: w}\n", map[string]string{"a": "j", "c": "s", "d": "w"}, metav1.PatchOptions{FieldManager: "e2e"}},
	} {
		got, err := maps.Patch(ctx, key, p.kind, []byte(p.body), p.opts)
		require.NoError(t, err, "%s", p.kind)
		require.Equal(t, p.want, got.Data, "%s", p.kind)
	}
	_, err = maps.Apply(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"d": "z"}}, metav1.ApplyOptions{FieldManager: "other"})
	require.True(t, apierrors.IsConflict(err), "the field is somebody else's: %v", err)
	applied, err := maps.Apply(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"d": "z"}}, metav1.ApplyOptions{FieldManager: "other", Force: true})
	require.NoError(t, err)
	require.Equal(t, "z", applied.Data["d"])

	alone := rest.ResourceForKind[*metav1.PartialObjectMetadata](client, corev1.SchemeGroupVersion.WithKind("ConfigMap")).Namespace(ns)
	patch(t, alone, ns, "c", `{"metadata":{"labels":{"l":"1"}}}`)
	some, err := alone.Get(ctx, key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "1", some.Labels["l"])

	other := types.UID("other")
	err = maps.Delete(ctx, key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.NoError(t, maps.Delete(ctx, key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}))
	err = maps.Delete(ctx, key, metav1.DeleteOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	for n := range 20 {
		_, err := maps.Create(ctx, configMap(n), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "n=3"}))
	require.Len(t, listAll(t, maps, metav1.ListOptions{Limit: 4, LabelSelector: "n"}), 18)
}

func TestSubresources(t *testing.T) {
	client, ns := admin(t)
	ctx := t.Context()
	pods := rest.ResourceFor[*corev1.Pod](client).Namespace(ns)
	pod, err := pods.Create(ctx, newPod("p"), metav1.CreateOptions{})
	require.NoError(t, err)
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.Containers[0].Image = "ignored"
	pod, err = pods.Subresource("status").Update(ctx, pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Equal(t, "i", pod.Spec.Containers[0].Image)

	bindings := rest.SubresourceFor[*corev1.Binding](pods, "binding")
	_, err = bindings.Create(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	none := int64(0)
	evictions := rest.SubresourceFor[*policyv1.Eviction](pods, "eviction")
	_, err = evictions.Create(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &none}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = pods.Get(ctx, object.Key{Name: "p"}, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	labels, one := map[string]string{"app": "d"}, int32(1)
	deployments := rest.ResourceFor[*appsv1.Deployment](client).Namespace(ns)
	_, err = deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("").Spec},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	scales(t, rest.SubresourceFor[*autoscalingv1.Scale](deployments, "scale"), "d", func() int32 {
		d, err := deployments.Get(ctx, object.Key{Name: "d"}, metav1.GetOptions{})
		require.NoError(t, err)
		return *d.Spec.Replicas
	})

	kind := object.GVK{Group: "verbs.example.com", Version: "v1", Kind: "Widget"}
	define(t, client, "widgets", kind)
	widgets := rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	u.SetName("w")
	_, err = widgets.Create(ctx, u, metav1.CreateOptions{})
	require.NoError(t, err)
	scales(t, rest.SubresourceFor[*autoscalingv1.Scale](widgets, "scale"), "w", func() int32 {
		w, err := widgets.Get(ctx, object.Key{Name: "w"}, metav1.GetOptions{})
		require.NoError(t, err)
		size, _, err := unstructured.NestedInt64(w.Object, "spec", "size")
		require.NoError(t, err)
		return int32(size)
	})
}

func scales(t *testing.T, scale *rest.Resource[*autoscalingv1.Scale], name string, replicas func() int32) {
	t.Helper()
	s, err := scale.Get(t.Context(), object.Key{Name: name}, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Spec.Replicas)
	s.Spec.Replicas = 5
	s, err = scale.Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 5, s.Spec.Replicas)
	require.EqualValues(t, 5, replicas())
	_, err = scale.Patch(t.Context(), object.Key{Name: name}, types.MergePatchType, []byte(`{"spec":{"replicas":6}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 6, replicas())
}

// TestToken requests a token for a service account and uses it.
func TestToken(t *testing.T) {
	client, ns := admin(t)
	accounts := rest.ResourceFor[*corev1.ServiceAccount](client).Namespace(ns)
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	seconds := int64(600)
	request := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := rest.SubresourceFor[*authenticationv1.TokenRequest](accounts, "token").Create(t.Context(), request, metav1.CreateOptions{})
	require.NoError(t, err)
	cfg := loadConfig(t, shared, "admin")
	cfg.BearerToken = token.Status.Token
	who, err := whoAmI(t, cfg)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:"+ns+":robot", who)
}

// TestWatchForms watches in protobuf and JSON, whole objects and only metadata, and as a streaming
// list.
func TestWatchForms(t *testing.T) {
	client, ns := admin(t)
	maps := rest.ResourceFor[*corev1.ConfigMap](client).Namespace(ns)
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	first, err := maps.Create(t.Context(), configMap(0), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Run("protobuf", func(t *testing.T) { watchForm(t, maps, maps, first) })
	t.Run("JSON", func(t *testing.T) {
		watchForm(t, rest.ResourceForKind[*unstructured.Unstructured](client, kind).Namespace(ns), maps, first)
	})
	t.Run("metadata", func(t *testing.T) {
		watchForm(t, rest.ResourceForKind[*metav1.PartialObjectMetadata](client, kind).Namespace(ns), maps, first)
	})
}

func watchForm[T object.Object](t *testing.T, r *rest.Resource[T], maps *rest.Resource[*corev1.ConfigMap], first *corev1.ConfigMap) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	yes := true
	events, err := r.Watch(ctx, metav1.ListOptions{
		LabelSelector:     "n=0",
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	require.NoError(t, err)
	next, stop := iter.Pull2(events)
	defer stop()
	read := func() wire.Event[T] {
		t.Helper()
		for {
			e, err, ok := next()
			require.NoError(t, err)
			require.True(t, ok, "the watch ended")
			require.False(t, e.Received.IsZero())
			if e.Type != watch.Bookmark || len(e.Object.GetAnnotations()) > 0 {
				return e // bookmarks in between may come at any time
			}
		}
	}
	e := read()
	require.Equal(t, watch.Added, e.Type)
	require.Equal(t, first.UID, e.Object.GetUID())
	require.Len(t, e.Object.GetManagedFields(), 1)
	require.Equal(t, "0", e.Object.GetLabels()["n"])
	e = read()
	require.Equal(t, watch.Bookmark, e.Type)
	require.Equal(t, "true", e.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey])
	_, err = maps.Create(ctx, configMap(10), metav1.CreateOptions{})
	require.NoError(t, err)
	patch(t, maps, "", name(10), `{"metadata":{"labels":{"n":"7"}}}`)
	e = read()
	require.Equal(t, watch.Added, e.Type)
	e = read()
	require.Equal(t, watch.Deleted, e.Type, "it no longer matches")
	require.Equal(t, "0", e.Object.GetLabels()["n"], "the last state that did")
	require.NoError(t, maps.Delete(ctx, object.Key{Name: name(10)}, metav1.DeleteOptions{}))

	one := int64(1)
	began := time.Now()
	events, err = r.Watch(ctx, metav1.ListOptions{ResourceVersion: e.Object.GetResourceVersion(), LabelSelector: "none", TimeoutSeconds: &one})
	require.NoError(t, err)
	for e, err := range events {
		require.NoError(t, err, "an orderly end is no error: %v", e)
	}
	require.NoError(t, ctx.Err(), "ended by the server, after %s", time.Since(began))
}

// TestRaw reads an endpoint that returns no object.
func TestRaw(t *testing.T) {
	t.Parallel()
	client := connect(t, shared, "admin")
	body, err := client.Raw(t.Context(), "/readyz?verbose")
	require.NoError(t, err)
	require.Contains(t, string(body), "readyz check passed")
	body, err = client.Raw(t.Context(), "/version")
	require.NoError(t, err)
	var version struct{ Major, Minor string }
	require.NoError(t, json.Unmarshal(body, &version))
	_, err = client.Raw(t.Context(), "/nonsense")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}
