package rest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// seen is the request that a server received.
type seen struct {
	line        string // method, path and query
	accept      string
	contentType string
	body        string
}

// record serves every request with the same object and records the request.
func record(t *testing.T, kind object.GVK, answer runtime.Object) (*Client, *seen) {
	t.Helper()
	got := new(seen)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = seen{line: r.Method + " " + r.RequestURI, accept: r.Header.Get("Accept"), contentType: r.Header.Get("Content-Type"), body: string(body)}
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.Write(encode(t, wire.MediaJSON, kind, answer))
	}), got
}

var (
	key        = object.Key{Namespace: "default", Name: "a"}
	kindStatus = object.GVK{Version: "v1", Kind: "Status"}
)

func TestVerbsOfATypedResource(t *testing.T) {
	ctx := t.Context()
	dry := []string{metav1.DryRunAll}
	for _, c := range []struct {
		name string
		do   func(r *Resource[*corev1.Pod]) (*corev1.Pod, error)
		line string
		body string // media type
	}{
		{"get", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Get(ctx, key, metav1.GetOptions{ResourceVersion: "0"})
		}, "GET /api/v1/namespaces/default/pods/a?resourceVersion=0", ""},
		{"get in scope", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Namespace("default").Get(ctx, object.Key{Name: "a"}, metav1.GetOptions{})
		}, "GET /api/v1/namespaces/default/pods/a", ""},
		{"create", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Create(ctx, pod("a"), metav1.CreateOptions{DryRun: dry, FieldManager: "me"})
		}, "POST /api/v1/namespaces/default/pods?dryRun=All&fieldManager=me", wire.MediaProtobuf},
		{"update", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Update(ctx, pod("a"), metav1.UpdateOptions{})
		}, "PUT /api/v1/namespaces/default/pods/a", wire.MediaProtobuf},
		{"update status", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Subresource("status").Update(ctx, pod("a"), metav1.UpdateOptions{})
		}, "PUT /api/v1/namespaces/default/pods/a/status", wire.MediaProtobuf},
		{"patch", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Patch(ctx, key, types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
		}, "PATCH /api/v1/namespaces/default/pods/a", string(types.StrategicMergePatchType)},
		{"apply", func(r *Resource[*corev1.Pod]) (*corev1.Pod, error) {
			return r.Apply(ctx, pod("a"), metav1.ApplyOptions{FieldManager: "me", Force: true})
		}, "PATCH /api/v1/namespaces/default/pods/a?fieldManager=me&force=true", string(types.ApplyYAMLPatchType)},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, got := record(t, kindPod, pod("a"))
			result, err := c.do(ResourceFor[*corev1.Pod](client))
			require.NoError(t, err)
			require.Equal(t, pod("a"), result)
			require.Equal(t, c.line, got.line)
			require.Equal(t, c.body, got.contentType)
			require.Equal(t, wire.MediaProtobuf+","+wire.MediaJSON, got.accept)
		})
	}
}

func TestBodiesCarryTheirKind(t *testing.T) {
	mine := pod("a")
	client, got := record(t, kindPod, mine)
	pods := ResourceFor[*corev1.Pod](client)

	_, err := pods.Create(t.Context(), mine, metav1.CreateOptions{})
	require.NoError(t, err)
	dec, err := wire.NewDecoder(wire.MediaProtobuf, wire.Options{Type: reflect.TypeFor[*corev1.Pod](), Kind: kindPod})
	require.NoError(t, err)
	sent, err := dec.Object([]byte(got.body)) // fails if the kind is missing
	require.NoError(t, err)
	require.Equal(t, mine, sent)
	require.Equal(t, pod("a"), mine, "the caller's object is untouched")

	_, err = pods.Apply(t.Context(), mine, metav1.ApplyOptions{FieldManager: "me"})
	require.NoError(t, err)
	require.Contains(t, got.body, `"kind":"Pod"`)
	require.Empty(t, mine.TypeMeta)

	client, got = record(t, kindWidget, pod("a"))
	widget := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "default"}}}
	_, err = ResourceForKind[*unstructured.Unstructured](client, kindWidget).Create(t.Context(), widget, metav1.CreateOptions{})
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"default"}}`, got.body)
	require.NotContains(t, widget.Object, "kind")
	require.Equal(t, wire.MediaJSON, got.contentType)
	require.Equal(t, wire.MediaJSON, got.accept)
}

func TestDelete(t *testing.T) {
	client, got := record(t, kindStatus, &metav1.Status{Status: metav1.StatusSuccess})
	pods := ResourceFor[*corev1.Pod](client)
	require.NoError(t, pods.Delete(t.Context(), key, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u-1")}))
	require.Equal(t, "DELETE /api/v1/namespaces/default/pods/a", got.line)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u-1"}}`, got.body)

	require.NoError(t, pods.Namespace("x").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a=b"}))
	require.Equal(t, "DELETE /api/v1/namespaces/x/pods?labelSelector=a%3Db", got.line)
}

func TestDeleteAnswered(t *testing.T) {
	client, got := record(t, kindStatus, &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: "a", UID: "u-1"}})
	deleted, err := ResourceFor[*corev1.Pod](client).DeleteAnswered(t.Context(), key, metav1.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, "DELETE /api/v1/namespaces/default/pods/a", got.line)
	require.Equal(t, Deletion{UID: "u-1"}, deleted)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u-2", ResourceVersion: "7"}}
	client, _ = record(t, kindPod, pod)
	deleted, err = ResourceFor[*corev1.Pod](client).DeleteAnswered(t.Context(), key, metav1.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, Deletion{UID: "u-2", Object: pod}, deleted)

	client, _ = record(t, kindStatus, &metav1.Status{Status: metav1.StatusSuccess})
	deleted, err = ResourceFor[*corev1.Pod](client).DeleteAnswered(t.Context(), key, metav1.DeleteOptions{})
	require.NoError(t, err)
	require.Zero(t, deleted)
}

func TestSubresourcesOfAnotherType(t *testing.T) {
	scaleKind := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", ResourceVersion: "1"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	client, got := record(t, scaleKind, scale)
	scales := SubresourceFor[*autoscalingv1.Scale](ResourceFor[*appsv1.Deployment](client), "scale")
	result, err := scales.Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, scale, result)
	require.Equal(t, "GET /apis/apps/v1/namespaces/default/deployments/a/scale", got.line)
	_, err = scales.Update(t.Context(), scale, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, "PUT /apis/apps/v1/namespaces/default/deployments/a/scale", got.line)
	require.Equal(t, "deployments.apps/scale", scales.String())

	// The response to an eviction is a Status.
	client, got = record(t, kindStatus, &metav1.Status{Status: metav1.StatusSuccess, Code: 201})
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	sent, err := SubresourceFor[*policyv1.Eviction](ResourceFor[*corev1.Pod](client), "eviction").Create(t.Context(), eviction, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Same(t, eviction, sent)
	require.Equal(t, "POST /api/v1/namespaces/default/pods/a/eviction", got.line)
}

func TestMetadataOnly(t *testing.T) {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}}
	client, got := record(t, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), meta)
	pods := ResourceForKind[*metav1.PartialObjectMetadata](client, kindPod)
	result, err := pods.Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, kindPod, result.GroupVersionKind())
	const as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
	require.Equal(t, wire.MediaProtobuf+as+wire.MediaJSON+as+wire.MediaJSON, got.accept)

	_, err = pods.Patch(t.Context(), key, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = pods.Update(t.Context(), result, metav1.UpdateOptions{})
	require.ErrorIs(t, err, errMetadataOnly)

	list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{*meta}}
	client, got = record(t, metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"), list)
	require.Equal(t, []string{"a"}, itemNames(t, ResourceForKind[*metav1.PartialObjectMetadata](client, kindPod).List(t.Context(), metav1.ListOptions{})))
	const asList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
	require.Equal(t, wire.MediaProtobuf+asList+wire.MediaJSON+asList+wire.MediaJSON, got.accept)
}

func TestMixedTypes(t *testing.T) {
	client, _ := record(t, kindPod, pod("a"))
	obj, err := ResourceForKind[object.Object](client, kindPod).Get(t.Context(), key, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, pod("a"), obj)
}

// Invalid calls fail before a request is sent.
func TestWrongCalls(t *testing.T) {
	ctx := t.Context()
	client := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("sent: %s %s", r.Method, r.RequestURI) })
	pods, nodes := ResourceFor[*corev1.Pod](client), ResourceFor[*corev1.Node](client)
	_, err := pods.Mapping(ctx) // so messages name the resource instead of the kind
	require.NoError(t, err)
	get := func(r *Resource[*corev1.Pod], key object.Key) error {
		_, err := r.Get(ctx, key, metav1.GetOptions{})
		return err
	}
	list := func(opts metav1.ListOptions) error {
		for _, err := range pods.List(ctx, opts).Items {
			return err
		}
		return nil
	}
	watch := func(opts metav1.ListOptions) error {
		_, err := pods.Watch(ctx, opts)
		return err
	}
	yes, minus := true, int64(-1)
	for want, err := range map[string]error{
		`get pods in namespace x: the name is empty`:                                                                                          get(pods, object.Key{Namespace: "x"}),
		`get pods a: pods are namespaced, and the key "a" has no namespace`:                                                                   get(pods, object.Key{Name: "a"}),
		`get pods y/a: the key "y/a" is outside namespace "x"`:                                                                                get(pods.Namespace("x"), object.Key{Namespace: "y", Name: "a"}),
		`get pods x/..: ".." cannot be part of a path: it may not be '..'`:                                                                    get(pods, object.Key{Namespace: "x", Name: ".."}),
		`get pods x/a/b: "a/b" cannot be part of a path: it may not contain '/'`:                                                              get(pods, object.Key{Namespace: "x", Name: "a/b"}),
		`get pods  x/a: " x" cannot be a namespace: want at most 63 of a-z, 0-9 and '-', and no '-' at either end`:                            get(pods, object.Key{Namespace: " x", Name: "a"}),
		`get nodes a: nodes are not namespaced, and a namespace was given ("x")`:                                                              second(nodes.Namespace("x").Get(ctx, object.Key{Name: "a"}, metav1.GetOptions{})),
		`create pods: pods are namespaced, and no namespace was given: set the object's, or use Resource.Namespace`:                           second(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})),
		`delete collection of pods: pods are namespaced, and no namespace was given: set the object's, or use Resource.Namespace`:             pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		`create pods: the object is nil`:                                                                                                      second(pods.Create(ctx, nil, metav1.CreateOptions{})),
		`create pods in namespace x: the object is of kind v1 Node, want v1 Pod`:                                                              second(pods.Create(ctx, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "x"}}, metav1.CreateOptions{})),
		`patch pods default/a: an apply patch needs a field manager`:                                                                          second(pods.Apply(ctx, pod("a"), metav1.ApplyOptions{})),
		`patch pods default/a: unknown patch type "x"`:                                                                                        second(pods.Patch(ctx, key, "x", []byte("{}"), metav1.PatchOptions{})),
		`patch pods default/a: the patch is empty`:                                                                                            second(pods.Patch(ctx, key, types.JSONPatchType, nil, metav1.PatchOptions{})),
		`delete pods: the name is empty`:                                                                                                      pods.Delete(ctx, object.Key{}, metav1.DeleteOptions{}),
		`list pods: the options ask for a watch: use Watch`:                                                                                   list(metav1.ListOptions{Watch: true}),
		`list pods: sendInitialEvents is only for watches`:                                                                                    list(metav1.ListOptions{SendInitialEvents: &yes}),
		`list pods: continue and resourceVersionMatch contradict each other`:                                                                  list(metav1.ListOptions{Continue: "x", ResourceVersion: "0", ResourceVersionMatch: "NotOlderThan"}),
		`list pods: resourceVersionMatch needs a resourceVersion`:                                                                             list(metav1.ListOptions{ResourceVersionMatch: "Exact"}),
		`list pods: unknown resourceVersionMatch "x": want Exact or NotOlderThan`:                                                             list(metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "x"}),
		`list pods: the limit -1 is negative: use zero for none`:                                                                              list(metav1.ListOptions{Limit: -1}),
		`watch pods: continue is only for lists`:                                                                                              watch(metav1.ListOptions{Continue: "x"}),
		`watch pods: resourceVersionMatch on a watch needs sendInitialEvents`:                                                                 watch(metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "NotOlderThan"}),
		`watch pods: sendInitialEvents needs resourceVersionMatch NotOlderThan`:                                                               watch(metav1.ListOptions{SendInitialEvents: &yes}),
		`watch pods: the timeout of -1 s is negative: leave it unset for none`:                                                                watch(metav1.ListOptions{TimeoutSeconds: &minus}),
		`get "version": want an absolute path such as "/version"`:                                                                             second(client.Raw(ctx, "version")),
		`get Gadget.example.com default/a: find the resource of example.com/v1 Gadget: the server does not serve example.com/v1, Kind=Gadget`: second(ResourceForKind[*unstructured.Unstructured](client, object.GVK{Group: "example.com", Version: "v1", Kind: "Gadget"}).Get(ctx, key, metav1.GetOptions{})),
	} {
		assert.EqualError(t, err, want)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTypesWithoutAKind(t *testing.T) {
	client := serve(t, func(http.ResponseWriter, *http.Request) {})
	metav1.AddMetaToScheme(client.scheme)
	for _, err := range []error{
		second(ResourceFor[*policyv1.PodDisruptionBudget](clientWithout(t)).Get(t.Context(), key, metav1.GetOptions{})),
		second(ResourceFor[*unstructured.Unstructured](client).Get(t.Context(), key, metav1.GetOptions{})),
		second(ResourceFor[*metav1.PartialObjectMetadata](client).Get(t.Context(), key, metav1.GetOptions{})),
		second(ResourceFor[object.Object](client).Get(t.Context(), key, metav1.GetOptions{})),
		second(ResourceFor[*corev1.Pod](clientWithout(t)).Apply(t.Context(), pod("a"), metav1.ApplyOptions{FieldManager: "me"})),
		second(SubresourceFor[object.Object](ResourceFor[*corev1.Pod](client), "x").Get(t.Context(), key, metav1.GetOptions{})),
	} {
		_, ok := isMappingError(err)
		require.True(t, ok, "%v", err)
		require.Contains(t, err.Error(), "ResourceForKind")
	}
	for _, err := range ResourceFor[object.Object](client).List(t.Context(), metav1.ListOptions{}).Items {
		_, ok := isMappingError(err)
		require.True(t, ok, "%v", err)
	}
}

func isMappingError(err error) (*source.ResolveError, bool) {
	return errors.AsType[*source.ResolveError](err)
}

func clientWithout(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(&config.Config{Host: "http://127.0.0.1:1"}, nil)
	require.NoError(t, err)
	return c
}

func TestRaw(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/version?timeout=1s" {
			http.NotFound(w, r)
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"major": "1"})
	})
	body, err := c.Raw(t.Context(), "/version?timeout=1s")
	require.NoError(t, err)
	require.JSONEq(t, `{"major":"1"}`, string(body))
	_, err = c.Raw(t.Context(), "/nothing")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = c.Raw(t.Context(), "/openapi/v3/100%")
	require.EqualError(t, err, `get /openapi/v3/100%: the path "/openapi/v3/100%" is malformed: invalid URL escape "%": escape its segments with url.PathEscape`)
}

func TestResourceString(t *testing.T) {
	c := clientOf(t, &config.Config{Host: "http://127.0.0.1:1"})
	widgets := ResourceForKind[*unstructured.Unstructured](c, kindWidget)
	require.Equal(t, kindWidget.GroupKind().String(), widgets.String(), "not looked up yet")
	_, err := widgets.Mapping(t.Context())
	require.NoError(t, err)
	require.Equal(t, "widgets.example.com", widgets.String())
	deployments := ResourceFor[*appsv1.Deployment](c)
	require.Equal(t, "deployments.apps", deployments.String())
	require.Equal(t, "deployments.apps in namespace x", deployments.Namespace("x").String())
	require.Equal(t, "deployments.apps/status", deployments.Subresource("status").String())
}

// The Config's write options apply to writes that do not set them, and not to reads.
func TestWriteOptionsOfTheConfig(t *testing.T) {
	recorded, got := record(t, kindPod, pod("a"))
	client := clientOf(t, &config.Config{Host: recorded.base.String(), FieldManager: "me", FieldValidation: metav1.FieldValidationStrict})
	r := ResourceFor[*corev1.Pod](client)
	const path, strict = " /api/v1/namespaces/default/pods", "fieldManager=me&fieldValidation=Strict"
	for want, do := range map[string]func() (*corev1.Pod, error){
		"POST" + path + "?" + strict: func() (*corev1.Pod, error) { return r.Create(t.Context(), pod("a"), metav1.CreateOptions{}) },
		"POST" + path + "?fieldManager=you&fieldValidation=Warn": func() (*corev1.Pod, error) {
			return r.Create(t.Context(), pod("a"), metav1.CreateOptions{FieldManager: "you", FieldValidation: metav1.FieldValidationWarn})
		},
		"PUT" + path + "/a?" + strict: func() (*corev1.Pod, error) { return r.Update(t.Context(), pod("a"), metav1.UpdateOptions{}) },
		"PATCH" + path + "/a/status?" + strict: func() (*corev1.Pod, error) {
			return r.Subresource("status").Patch(t.Context(), key, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		},
		"PATCH" + path + "/a?" + strict + "&force=true": func() (*corev1.Pod, error) {
			return r.Apply(t.Context(), pod("a"), metav1.ApplyOptions{Force: true})
		},
		"GET" + path + "/a": func() (*corev1.Pod, error) { return r.Get(t.Context(), key, metav1.GetOptions{}) },
	} {
		_, err := do()
		require.NoError(t, err)
		require.Equal(t, want, got.line)
	}
}
