package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

var (
	podKind        = corev1.SchemeGroupVersion.WithKind("Pod")
	podListKind    = corev1.SchemeGroupVersion.WithKind("PodList")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	evictionKind   = policyv1.SchemeGroupVersion.WithKind("Eviction")
	bindingKind    = corev1.SchemeGroupVersion.WithKind("Binding")
	scaleKind      = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	execKind       = corev1.SchemeGroupVersion.WithKind("PodExecOptions")
)

// objectOf returns an object of a kind, which decodes as any other.
func objectOf(kind schema.GroupVersionKind) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a"},"spec":{}}`, kind.GroupVersion(), kind.Kind)
}

// handlers returns a validating and a mutating webhook of T, which count their calls.
func handlers[T object.Object](calls *int, kinds ...object.GVK) map[string]http.Handler {
	called := func(_ context.Context, r *webhook.Request[T]) error {
		if *calls++; r.Operation != admissionv1.Delete {
			r.Object.SetLabels(map[string]string{"seen": "yes"})
		}
		return nil
	}
	return map[string]http.Handler{"validate": webhook.Validate(called, kinds...), "mutate": webhook.Mutate(called, kinds...)}
}

func TestAWebhookRefusesOtherKinds(t *testing.T) {
	calls := 0
	type review struct {
		operation admissionv1.Operation
		kind      schema.GroupVersionKind
		obj, old  string
		refused   string // the message's text; empty if the review is accepted
	}
	reviews := map[string]review{
		"a Pod":           {admissionv1.Create, podKind, objectOf(podKind), "null", ""},
		"a changed Pod":   {admissionv1.Update, podKind, objectOf(podKind), objectOf(podKind), ""},
		"a deleted Pod":   {admissionv1.Delete, podKind, "null", objectOf(podKind), ""},
		"pods/exec":       {admissionv1.Connect, execKind, objectOf(execKind), "null", `"v1 PodExecOptions"`},
		"another version": {admissionv1.Create, schema.GroupVersionKind{Version: "v2", Kind: "Pod"}, `{"apiVersion":"v2","kind":"Pod"}`, "null", `"v2 Pod"`},
		"another group":   {admissionv1.Create, schema.GroupVersionKind{Group: "metrics.k8s.io", Version: "v1", Kind: "Pod"}, objectOf(podKind), "null", `"metrics.k8s.io/v1 Pod"`},
		"no kind":         {admissionv1.Create, schema.GroupVersionKind{}, objectOf(podKind), "null", "but received none"},
		"a long kind":     {admissionv1.Create, schema.GroupVersionKind{Version: "v1", Kind: strings.Repeat("x", 1000)}, objectOf(podKind), "null", strings.Repeat("x", 97) + `": `},

		"another object":        {admissionv1.Create, podKind, objectOf(deploymentKind), "null", `got "apps/v1" "Deployment"`},
		"a list as the object":  {admissionv1.Create, podKind, objectOf(podListKind), "null", `got "v1" "PodList"`},
		"an object of no kind":  {admissionv1.Create, podKind, `{"metadata":{"name":"a"}}`, "null", "the body specifies no kind"},
		"an object of no group": {admissionv1.Create, podKind, `{"kind":"Pod"}`, "null", `got "" "Pod"`},
		"metadata alone":        {admissionv1.Create, podKind, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"}`, "null", `got "meta.k8s.io/v1"`},
		"another old object":    {admissionv1.Update, podKind, objectOf(podKind), objectOf(deploymentKind), `got "apps/v1" "Deployment"`},
		"an old object of none": {admissionv1.Update, podKind, objectOf(podKind), `{}`, "the body specifies no kind"},
		"another deleted one":   {admissionv1.Delete, podKind, "null", objectOf(deploymentKind), `got "apps/v1" "Deployment"`},
	}
	for _, kind := range []schema.GroupVersionKind{deploymentKind, podListKind, evictionKind, bindingKind, scaleKind} {
		said := fmt.Sprintf("%q", kind.GroupVersion().String()+" "+kind.Kind)
		reviews["create "+kind.Kind] = review{admissionv1.Create, kind, objectOf(kind), "null", said}
		reviews["update "+kind.Kind] = review{admissionv1.Update, kind, objectOf(kind), objectOf(kind), said}
		reviews["delete "+kind.Kind] = review{admissionv1.Delete, kind, "null", objectOf(kind), said}
		reviews["connect "+kind.Kind] = review{admissionv1.Connect, kind, "null", "null", said}
	}
	for form, hooks := range map[string]map[string]http.Handler{
		"typed": handlers[*corev1.Pod](&calls), "typed, named": handlers[*corev1.Pod](&calls, podKind),
		"unstructured": handlers[*unstructured.Unstructured](&calls, podKind), "metadata": handlers[*metav1.PartialObjectMetadata](&calls, podKind),
	} {
		for does, hook := range hooks {
			for name, c := range reviews {
				t.Run(form+"/"+does+"/"+name, func(t *testing.T) {
					calls = 0
					got := askOf(t, hook, c.kind, c.operation, c.obj, c.old)
					if c.refused == "" {
						require.True(t, got.Allowed, got.Result)
						require.Equal(t, does == "validate" || c.operation != admissionv1.Delete, calls == 1)
						return
					}
					require.Zero(t, calls)
					require.False(t, got.Allowed)
					require.Empty(t, got.Patch)
					require.EqualValues(t, http.StatusBadRequest, got.Result.Code)
					require.Equal(t, metav1.StatusReasonBadRequest, got.Result.Reason)
					require.Contains(t, got.Result.Message, c.refused)
					if c.kind == podKind {
						require.Contains(t, got.Result.Message, "want v1 Pod, as stated in the review")
						return
					}
					require.Contains(t, got.Result.Message, "the webhook at /path is for v1 Pod but received ")
					require.Contains(t, got.Result.Message, ": change the rules or the path in the webhook configuration")
				})
			}
		}
	}
}

// A subresource other than status has its own kind.
func TestAWebhookForASubresource(t *testing.T) {
	calls := 0
	for kind, hooks := range map[schema.GroupVersionKind]map[string]http.Handler{
		evictionKind: handlers[*policyv1.Eviction](&calls), bindingKind: handlers[*corev1.Binding](&calls), scaleKind: handlers[*autoscalingv1.Scale](&calls),
	} {
		for does, hook := range hooks {
			require.True(t, askOf(t, hook, kind, admissionv1.Create, objectOf(kind), "null").Allowed, "%s %s", does, kind)
			require.False(t, askOf(t, hook, podKind, admissionv1.Create, objectOf(podKind), "null").Allowed, "%s %s", does, kind)
		}
	}
	require.Equal(t, 6, calls)
}

// The API server converts an object to the version in the rules and names that in kind; requestKind is
// the client's version.
func TestWebhookReceivesAnotherVersionThanTheClientWrote(t *testing.T) {
	calls := 0
	hook := handlers[*appsv1.Deployment](&calls)["validate"]
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","kind":{"group":"apps","version":%q,"kind":"Deployment"},` +
		`"requestKind":{"group":"apps","version":%q,"kind":"Deployment"},"object":{"apiVersion":"apps/%s","kind":"Deployment"}}}`
	for of, allowed := range map[[2]string]bool{{"v1", "v1beta1"}: true, {"v1beta1", "v1"}: false} {
		w := httptest.NewRecorder()
		hook.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fmt.Sprintf(body, of[0], of[1], of[0]))))
		require.Contains(t, w.Body.String(), fmt.Sprintf(`"allowed":%t`, allowed))
	}
}

func TestAWebhookOfSeveralKinds(t *testing.T) {
	calls := 0
	group := func(v string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: v, Kind: "Thing"}
	}
	anything := schema.GroupVersionKind{Group: "*", Version: "*", Kind: "*"}
	apps := schema.GroupVersionKind{Group: "apps", Version: "*", Kind: "*"}
	for name, c := range map[string]struct {
		hooks       map[string]http.Handler
		for_, other []schema.GroupVersionKind
	}{
		"typed":        {handlers[*two](&calls, group("v1"), group("v2")), []schema.GroupVersionKind{group("v1"), group("v2")}, []schema.GroupVersionKind{group("v3"), podKind}},
		"unstructured": {handlers[*unstructured.Unstructured](&calls, podKind, deploymentKind), []schema.GroupVersionKind{podKind, deploymentKind}, []schema.GroupVersionKind{evictionKind}},
		"a group":      {handlers[*metav1.PartialObjectMetadata](&calls, apps), []schema.GroupVersionKind{deploymentKind}, []schema.GroupVersionKind{podKind, {}}},
		"anything":     {handlers[*metav1.PartialObjectMetadata](&calls, anything), []schema.GroupVersionKind{podKind, deploymentKind, evictionKind}, nil},
	} {
		for does, hook := range c.hooks {
			for _, kind := range c.for_ {
				require.True(t, askOf(t, hook, kind, admissionv1.Create, objectOf(kind), "null").Allowed, "%s, %s: %s", name, does, kind)
				for _, lie := range []string{objectOf(bindingKind), objectOf(anything), `{"metadata":{"name":"a"}}`} {
					got := askOf(t, hook, kind, admissionv1.Create, lie, "null")
					require.False(t, got.Allowed, "%s, %s: %s", name, does, lie)
				}
			}
			for _, kind := range c.other {
				require.False(t, askOf(t, hook, kind, admissionv1.Create, objectOf(kind), "null").Allowed, "%s, %s: %s", name, does, kind)
			}
		}
	}
}

func TestWebhookOfAnUnknownKindIsRefused(t *testing.T) {
	calls := 0
	v2 := schema.GroupVersion{Group: "example.com", Version: "v2"}
	for want, call := range map[string]func(){
		`*webhook_test.two is not a type in k8s.io/api: pass its kind, such as v1.GroupVersion.WithKind("two")`: func() { handlers[*two](&calls) },
		`*unstructured.Unstructured may be of any kind: pass the handler's kinds`:                               func() { handlers[*unstructured.Unstructured](&calls) },
		`*v1.PartialObjectMetadata may be of any kind: pass the handler's kinds`:                                func() { handlers[*metav1.PartialObjectMetadata](&calls) },
		`the kind "/v1, Kind=" lacks a version or a kind`:                                                       func() { handlers[*corev1.Pod](&calls, schema.GroupVersionKind{Version: "v1"}) },
		`a handler for *v1.Pod cannot accept any kind: list each one`:                                           func() { handlers[*corev1.Pod](&calls, schema.GroupVersionKind{Version: "v1", Kind: "*"}) },
		`*unstructured.Unstructured may be of any kind: pass the conversion's kinds`:                            func() { webhook.NewConversion[*unstructured.Unstructured](v2) },
		`a kind is empty`: func() { webhook.NewConversion[*two](v2, "") },
	} {
		func() {
			defer func() {
				p := fmt.Sprint(recover())
				require.Contains(t, p, want)
				require.Contains(t, p, "kind_test.go:")
			}()
			call()
		}()
	}
}

// An operator finds a wrong configuration in the log and in the figures, however often the API
// server asks.
func TestAWrongKindIsLoggedOnceAndCounted(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var log bytes.Buffer
	counted := &counts{}
	s, err := webhook.New(webhook.Options{Listener: listener, TLS: &serving.TLS{}, Metrics: counted, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	calls := 0
	s.Handle("/pods", handlers[*corev1.Pod](&calls)["validate"])
	c := webhook.NewConversion[*two](schema.GroupVersion{Group: "example.com", Version: "v2"}, "Thing")
	s.Handle("/convert", c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for path, body := range map[string]string{
		"/pods": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"policy","version":"v1","kind":"Eviction"},` +
			`"resource":{"version":"v1","resource":"pods"},"subResource":"eviction","object":` + objectOf(evictionKind) + `}}`,
		"/convert": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v2","objects":[{"apiVersion":"example.com/v1","kind":"Gadget"}]}}`,
	} {
		for range 3 {
			resp, err := client.Post("https://"+listener.Addr().String()+path, "application/json", strings.NewReader(body))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
	}
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), log.String())
	require.Contains(t, log.String(), `msg="rejected the first review of the wrong kind" path=/pods resource=pods subresource=eviction `)
	require.Contains(t, log.String(), `msg="rejected the first review of the wrong kind" path=/convert `)
	for path, n := range map[string]int{"/pods": 3, "/convert": 3} {
		require.Equal(t, n, strings.Count(strings.Join(counted.log, "\n"), "ended "+path+" 200 false"))
	}
	require.Zero(t, calls)
}

func TestAConversionRefusesOtherKinds(t *testing.T) {
	version := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: "example.com", Version: v} }
	typed := webhook.NewConversion[*two](version("v2"), "Thing", "Gadget")
	untyped := webhook.NewConversion[*unstructured.Unstructured](version("v2"), "Thing", "Gadget")
	calls := 0
	called := func(context.Context, *two, *two) error { calls++; return nil }
	calledUntyped := func(context.Context, *unstructured.Unstructured, *unstructured.Unstructured) error {
		calls++
		return nil
	}
	webhook.Spoke(typed, version("v1"), called, called)
	webhook.Spoke(untyped, version("v1"), calledUntyped, calledUntyped)
	obj := func(apiVersion, kind string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a"}}`, apiVersion, kind)
	}
	const thing, sent = "example.com/v1", "is for Thing, Gadget in example.com/v2, example.com/v1 but received "
	for name, c := range map[string]struct{ to, objects, want string }{
		"its kinds":                   {"example.com/v2", obj(thing, "Thing") + "," + obj(thing, "Gadget"), ""},
		"the other way":               {"example.com/v1", obj("example.com/v2", "Thing") + "," + obj(thing, "Thing"), ""},
		"another kind":                {"example.com/v2", obj(thing, "Widget"), sent + `"example.com/v1 Widget"`},
		"another kind among its own":  {"example.com/v2", obj(thing, "Thing") + "," + obj(thing, "Widget"), sent + `"example.com/v1 Widget"`},
		"another kind to the version": {"example.com/v1", obj(thing, "Widget"), sent + `"example.com/v1 Widget"`},
		"a list":                      {"example.com/v2", obj(thing, "ThingList"), sent + `"example.com/v1 ThingList"`},
		"another group":               {"apps/v1", obj("apps/v1beta1", "Thing"), sent + `"apps/v1beta1 Thing"`},
		"no kind":                     {"example.com/v2", `{"apiVersion":"example.com/v1"}`, sent},
		"no version":                  {"example.com/v2", `{"kind":"Thing"}`, sent},
		"null":                        {"example.com/v2", `null`, sent + "none"},
		"a kind in another case":      {"example.com/v2", `{"apiVersion":"example.com/v1","Kind":"Thing"}`, sent},
		"an unknown version":          {"example.com/v2", obj("example.com/v7", "Thing"), "no conversion is registered for example.com/v7, only for example.com/v2, example.com/v1"},
		"to an unknown version":       {"example.com/v7", obj(thing, "Thing"), "no conversion is registered for example.com/v7, only for example.com/v2, example.com/v1"},
	} {
		for form, h := range map[string]http.Handler{"typed": typed, "unstructured": untyped} {
			t.Run(form+"/"+name, func(t *testing.T) {
				calls = 0
				got := converted(t, h, c.to, c.objects)
				if c.want == "" {
					require.Equal(t, "Success", got.Result.Status, got.Result.Message)
					return
				}
				require.Zero(t, calls)
				require.Equal(t, "Failure", got.Result.Status)
				require.Contains(t, got.Result.Message, c.want)
				require.Empty(t, got.ConvertedObjects)
			})
		}
	}
}

// A conversion of a Go type is for the kind that has its name.
func TestAConversionIsForTheKindOfItsType(t *testing.T) {
	v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v2"}
	c := webhook.NewConversion[*corev1.ConfigMap](v2)
	none := func(context.Context, *corev1.ConfigMap, *corev1.ConfigMap) error { return nil }
	webhook.Spoke(c, v1, none, none)
	require.Equal(t, "Success", converted(t, c, "example.com/v2", objectOf(v1.WithKind("ConfigMap"))).Result.Status)
	got := converted(t, c, "example.com/v2", objectOf(v1.WithKind("Secret")))
	require.Contains(t, got.Result.Message, `the conversion at /path is for ConfigMap in example.com/v2, example.com/v1 but received "example.com/v1 Secret": change the path in the CustomResourceDefinition`)
	require.EqualValues(t, http.StatusBadRequest, got.Result.Code)
}

// The result of a function has the requested kind and version.
func TestAConversionKeepsTheKind(t *testing.T) {
	v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v2"}
	for name, change := range map[string]func(out *two){
		"lost":    func(out *two) { *out = two{ObjectMeta: out.ObjectMeta} },
		"kind":    func(out *two) { out.Kind = "Other" },
		"version": func(out *two) { out.APIVersion = "example.com/v3" },
	} {
		t.Run(name, func(t *testing.T) {
			c := webhook.NewConversion[*two](v2, "Thing")
			convert := func(_ context.Context, in, out *two) error { change(out); return nil }
			webhook.Spoke(c, v1, convert, convert)
			for from, to := range map[schema.GroupVersion]schema.GroupVersion{v1: v2, v2: v1} {
				got := converted(t, c, to.String(), objectOf(from.WithKind("Thing")))
				require.Equal(t, "Failure", got.Result.Status)
				require.Contains(t, got.Result.Message, "the result has the wrong kind: wrong kind: ")
				require.Contains(t, got.Result.Message, "want "+to.String()+" Thing")
				require.Empty(t, got.ConvertedObjects)
			}
		})
	}
}

type conversionResponse struct {
	ConvertedObjects []json.RawMessage
	Result           metav1.Status
}

// converted sends a conversion review.
func converted(t *testing.T, h http.Handler, to, objects string) conversionResponse {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/path", strings.NewReader(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"`+to+`","objects":[`+objects+`]}}`)))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var review struct{ Response conversionResponse }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review))
	return review.Response
}
