package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

// ask sends an admission review about a pod.
func ask(t *testing.T, h http.Handler, operation admissionv1.Operation, obj, old string) *admissionv1.AdmissionResponse {
	t.Helper()
	return askOf(t, h, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, operation, obj, old)
}

// askOf sends an admission review that says what it is about.
func askOf(t *testing.T, h http.Handler, kind schema.GroupVersionKind, operation admissionv1.Operation, obj, old string) *admissionv1.AdmissionResponse {
	t.Helper()
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u1", Operation: operation, Kind: metav1.GroupVersionKind(kind),
			Object: k8sruntime.RawExtension{Raw: []byte(obj)}, OldObject: k8sruntime.RawExtension{Raw: []byte(old)},
		},
	}
	body, err := json.Marshal(review)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/path", bytes.NewReader(body)))
	require.Equal(t, 200, w.Code, w.Body.String())
	var answer admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Equal(t, review.TypeMeta, answer.TypeMeta)
	require.EqualValues(t, "u1", answer.Response.UID)
	return answer.Response
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"fromTheFuture":1,"containers":[{"name":"c","image":"x","fromTheFuture":2}]}}`

func TestValidate(t *testing.T) {
	h := webhook.Validate(func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		switch r.Operation {
		case admissionv1.Delete:
			require.Nil(t, r.Object)
			require.Equal(t, "a", r.OldObject.Name)
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, r.OldObject.Name, errors.New("not now"))
		case admissionv1.Update:
			require.Equal(t, "a", r.OldObject.Name)
		default:
			require.Nil(t, r.OldObject)
		}
		r.Warn("%s has no owner", r.Object.Name)
		if r.Object.Spec.Containers[0].Image == "x" {
			return errors.New("x is no image")
		}
		return nil
	})
	allowed := ask(t, h, admissionv1.Create, strings.Replace(pod, `"x"`, `"y"`, 1), "null")
	require.True(t, allowed.Allowed)
	require.Equal(t, []string{"a has no owner"}, allowed.Warnings)
	refused := ask(t, h, admissionv1.Update, pod, pod)
	require.False(t, refused.Allowed)
	require.Equal(t, "x is no image", refused.Result.Message)
	require.EqualValues(t, 403, refused.Result.Code)
	require.Equal(t, []string{"a has no owner"}, refused.Warnings)
	deleted := ask(t, h, admissionv1.Delete, "null", pod)
	require.False(t, deleted.Allowed)
	require.EqualValues(t, 409, deleted.Result.Code)
	garbled := ask(t, h, admissionv1.Create, `{"apiVersion":"v1","kind":"Pod","spec":7}`, "null")
	require.False(t, garbled.Allowed)
	require.Contains(t, garbled.Result.Message, "not a *v1.Pod")
}

func TestMutateReturnsOnlyChanges(t *testing.T) {
	h := webhook.Mutate(func(_ context.Context, r *webhook.Request[*corev1.Pod]) error {
		if r.Object.Name == "refused" {
			return errors.New("no")
		}
		if r.Object.Name == "a" {
			r.Object.Labels = map[string]string{"team/owner": "me"}
			r.Object.Spec.Containers[0].Image = "y"
			r.Object.Status.Phase = corev1.PodPending
		}
		return nil
	})
	changed := ask(t, h, admissionv1.Create, pod, "null")
	require.True(t, changed.Allowed)
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *changed.PatchType)
	patch, err := jsonpatch.DecodePatch(changed.Patch)
	require.NoError(t, err)
	got, err := patch.Apply([]byte(pod))
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"team/owner":"me"}},
		"spec":{"fromTheFuture":1,"containers":[{"name":"c","image":"y","fromTheFuture":2}]},"status":{"phase":"Pending"}}`, string(got))

	same := ask(t, h, admissionv1.Create, strings.Replace(pod, `"a"`, `"b"`, 1), "null")
	require.True(t, same.Allowed)
	require.Nil(t, same.PatchType)
	require.False(t, ask(t, h, admissionv1.Create, strings.Replace(pod, `"a"`, `"refused"`, 1), "null").Allowed)
	require.True(t, ask(t, h, admissionv1.Delete, "null", pod).Allowed)
}

func TestUnstructuredObjectsAreAdmittedToo(t *testing.T) {
	h := webhook.Mutate(func(_ context.Context, r *webhook.Request[*unstructured.Unstructured]) error {
		r.Object.SetLabels(map[string]string{"a": "b"})
		return nil
	}, corev1.SchemeGroupVersion.WithKind("Pod"))
	require.JSONEq(t, `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, string(ask(t, h, admissionv1.Create, pod, "null").Patch))
	require.PanicsWithValue(t, "webhook: object.Object is not a pointer to an API type: use one, or *unstructured.Unstructured", func() {
		webhook.Validate(func(context.Context, *webhook.Request[object.Object]) error { return nil })
	})
}

func TestInvalidReviewIsRefused(t *testing.T) {
	h := webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error { return nil })
	for want, body := range map[int]io.Reader{
		400: strings.NewReader(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`),
		413: io.MultiReader(strings.NewReader(`{"apiVersion":"`), strings.NewReader(strings.Repeat("x", 17<<20))),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", body))
		require.Equal(t, want, w.Code, w.Body.String())
	}
	for _, body := range []string{"", "nonsense", "{}", `{"apiVersion":"admission.k8s.io/v1"}`} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		require.Equal(t, 400, w.Code, body)
	}
	for _, is := range []string{"", `"kind":"AdmissionReview",`, `"apiVersion":"v1","kind":"Status",`,
		`"apiVersion":"admission.k8s.io/v1","kind":"Other",`, `"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview",`} {
		for _, h := range []http.Handler{h, webhook.NewConversion[*corev1.Pod](corev1.SchemeGroupVersion)} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{`+is+`"request":{"uid":"u"}}`)))
			require.Equal(t, 400, w.Code, is)
			require.Regexp(t, `want "(admission|apiextensions).k8s.io/v1 (Admission|Conversion)Review" with a request, got `, w.Body.String())
		}
	}
}

func TestAServerOfWebhooks(t *testing.T) {
	_, err := webhook.New(webhook.Options{})
	require.ErrorContains(t, err, "set CertDir")
	_, err = webhook.New(webhook.Options{CertDir: "x", TLS: &serving.TLS{}})
	require.ErrorContains(t, err, "remove one of them")
	_, err = webhook.New(webhook.Options{CertDir: t.TempDir()})
	require.ErrorContains(t, err, "is the secret mounted there?")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var log bytes.Buffer
	counted := &counts{}
	s, err := webhook.New(webhook.Options{Listener: listener, TLS: &serving.TLS{}, Metrics: counted, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	require.NoError(t, err)
	s.Handle("/panic", webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error { panic("boom") }))
	s.Handle("/exit", webhook.Mutate(func(context.Context, *webhook.Request[*corev1.Pod]) error { runtime.Goexit(); return nil }))
	s.Handle("/refuse", webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error { return errors.New("never") }))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	post := func(path string) (int, string) {
		resp, err := client.Post("https://"+listener.Addr().String()+path, "application/json",
			strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"object":`+pod+`}}`))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	code, body := post("/panic")
	require.Equal(t, 200, code, "an error would be admitted with failurePolicy Ignore")
	require.Contains(t, body, `"allowed":false`)
	require.Contains(t, body, "the webhook panicked: boom")
	code, body = post("/exit")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"allowed":false`)
	require.Contains(t, body, "the webhook called runtime.Goexit")
	code, body = post("/refuse")
	require.Equal(t, 200, code)
	require.Contains(t, body, "never")
	code, _ = post("/nowhere")
	require.Equal(t, 404, code)
	cancel()
	require.NoError(t, <-ended)
	require.Contains(t, log.String(), `msg="a webhook panicked" path=/panic`)
	require.Contains(t, log.String(), `msg="a webhook called runtime.Goexit" path=/exit`)
	require.Contains(t, log.String(), "TestAServerOfWebhooks.func1", "the stack is that of the panic")
	require.Equal(t, []string{
		"register /panic", "register /exit", "register /refuse", "started /panic", "ended /panic 200 true",
		"started /exit", "ended /exit 200 true", "started /refuse", "ended /refuse 200 false",
	}, counted.log)
	require.Contains(t, log.String(), "reason=never")
}

// one and two are versions of a custom resource; two has the size as a number.
type one struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              string `json:"size"`
}

type two struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int `json:"size"`
}

func (o *one) DeepCopyObject() k8sruntime.Object { c := *o; return &c }
func (o *two) DeepCopyObject() k8sruntime.Object { c := *o; return &c }

func TestConversion(t *testing.T) {
	group := func(v string) schema.GroupVersion { return schema.GroupVersion{Group: "example.com", Version: v} }
	c := webhook.NewConversion[*two](group("v2"), "Thing")
	webhook.Spoke(c, group("v1"), func(_ context.Context, in *one, out *two) error {
		_, err := fmt.Sscan(in.Size, &out.Size)
		return err
	}, func(_ context.Context, in *two, out *one) error {
		out.Size = fmt.Sprint(in.Size)
		return nil
	})
	webhook.Spoke(c, group("v3"), func(_ context.Context, in, out *two) error { out.Size = in.Size / 10; return nil },
		func(_ context.Context, in, out *two) error { out.Size = 10 * in.Size; return nil })

	obj := func(version, size string) string {
		return `{"apiVersion":"example.com/` + version + `","kind":"Thing","metadata":{"name":"a","uid":"x","labels":{"l":"m"},"creationTimestamp":"2026-01-01T00:00:00Z"},"size":` + size + `}`
	}
	convert := func(to string, objects ...string) (result metav1.Status, converted []json.RawMessage) {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/`+to+`","objects":[`+strings.Join(objects, ",")+`]}}`)))
		require.Equal(t, 200, w.Code, w.Body.String())
		var review struct {
			metav1.TypeMeta
			Response struct {
				UID              string
				ConvertedObjects []json.RawMessage
				Result           metav1.Status
			}
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review))
		require.Equal(t, "u", review.Response.UID)
		require.Equal(t, "ConversionReview", review.Kind)
		return review.Response.Result, review.Response.ConvertedObjects
	}
	for _, c := range []struct{ from, to string }{
		{obj("v1", `"7"`), obj("v2", `7`)}, {obj("v2", `7`), obj("v1", `"7"`)}, {obj("v1", `"7"`), obj("v3", `70`)},
		{obj("v3", `70`), obj("v1", `"7"`)}, {obj("v1", `"7"`), obj("v1", `"7"`)},
	} {
		var to metav1.TypeMeta
		require.NoError(t, json.Unmarshal([]byte(c.to), &to))
		version := to.GroupVersionKind().Version
		result, got := convert(version, c.from, c.from)
		require.Equal(t, "Success", result.Status, result.Message)
		require.Len(t, got, 2)
		require.JSONEq(t, c.to, string(got[0]))
	}
	result, got := convert("v2", obj("v1", `"7"`), obj("v1", `"many"`))
	require.Equal(t, "Failure", result.Status)
	require.Contains(t, result.Message, "convert Thing from example.com/v1 to example.com/v2")
	require.Empty(t, got, "all or none")
	result, _ = convert("v9", obj("v1", `"7"`))
	require.Contains(t, result.Message, "no conversion is registered for example.com/v9")

	webhook.Spoke(c, group("v4"), func(context.Context, *one, *two) error { panic("boom") },
		func(context.Context, *two, *one) error { runtime.Goexit(); return nil })
	result, got = convert("v2", obj("v2", `7`), obj("v4", `"7"`))
	require.Equal(t, "Failure", result.Status)
	require.Contains(t, result.Message, "the conversion panicked: boom")
	require.Empty(t, got)
	result, _ = convert("v4", obj("v2", `7`))
	require.Equal(t, "Failure", result.Status)
	require.Contains(t, result.Message, "the conversion called runtime.Goexit")
}

func TestMissingAndDuplicateFunctionsAreReportedAtTheCall(t *testing.T) {
	s, err := webhook.New(webhook.Options{TLS: &serving.TLS{}})
	require.NoError(t, err)
	v := func(v string) schema.GroupVersion { return schema.GroupVersion{Version: v} }
	up := func(context.Context, *one, *two) error { return nil }
	down := func(context.Context, *two, *one) error { return nil }
	for want, call := range map[string]func(){
		"the function for Validate is nil":        func() { webhook.Validate[*corev1.Pod](nil) },
		"the function for Mutate is nil":          func() { webhook.Mutate[*corev1.Pod](nil) },
		"the handler for /x is nil":               func() { s.Handle("/x", nil) },
		"the Conversion for Spoke is nil":         func() { webhook.Spoke[*one, *two](nil, v("v1"), up, down) },
		"one of the functions for Spoke is nil":   func() { webhook.Spoke(webhook.NewConversion[*two](v("v2")), v("v1"), up, nil) },
		"v2 was already added to this conversion": func() { webhook.Spoke(webhook.NewConversion[*two](v("v2")), v("v2"), up, down) },
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				p := fmt.Sprint(recover())
				require.Contains(t, p, want)
				if strings.HasSuffix(want, "is nil") {
					require.Contains(t, p, "webhook_test.go:")
				}
			}()
			call()
		})
	}
}

// Bodies that have arrived and are being processed count. Announced sizes and answered reviews do not.
func TestAServerHoldsABoundedAmountOfReviews(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, err := webhook.New(webhook.Options{Listener: listener, TLS: &serving.TLS{}})
	require.NoError(t, err)
	working, end := make(chan struct{}, 100), make(chan struct{})
	s.Handle("/", webhook.Validate(func(context.Context, *webhook.Request[*corev1.Pod]) error {
		working <- struct{}{}
		<-end
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"object":` + pod + `}}` + strings.Repeat(" ", 15<<20)
	post := func() int {
		resp, err := client.Post("https://"+listener.Addr().String(), "application/json", strings.NewReader(body))
		if err != nil {
			return 0 // the server breaks off what it does not read
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	silent := make([]*io.PipeWriter, 20) // they say that much will come
	var requests sync.WaitGroup
	for n := range silent {
		r, w := io.Pipe()
		silent[n] = w
		req, err := http.NewRequest(http.MethodPost, "https://"+listener.Addr().String(), r)
		require.NoError(t, err)
		req.ContentLength = 16 << 20
		requests.Go(func() {
			if resp, err := client.Do(req); err == nil {
				resp.Body.Close()
			}
		})
		_, err = w.Write([]byte("{"))
		require.NoError(t, err)
	}
	codes := make([]int, 3)
	for n := range codes {
		requests.Go(func() { codes[n] = post() })
		<-working
	}
	require.Contains(t, []int{503, 0}, post(), "the fourth of 16 MiB, beside 20 of 8 KiB")
	close(end)
	for _, w := range silent {
		w.CloseWithError(errors.New("given up"))
	}
	requests.Wait()
	require.Equal(t, []int{200, 200, 200}, codes)
	for range 6 {
		require.Equal(t, 200, post(), "what was held was given back")
	}
	cancel()
	require.NoError(t, <-ended)
}

// broken are metrics that do not return.
type broken func()

func (b broken) Register(string) webhook.Metrics { return b }
func (b broken) Started()                        { b() }
func (b broken) Ended(int, time.Duration, bool)  { b() }

func TestFailingMetricsDoNoHarm(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("no registry") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			var log bytes.Buffer
			s, err := webhook.New(webhook.Options{Name: "tenant", Listener: listener, TLS: &serving.TLS{}, Metrics: broken(fail), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			require.Equal(t, "tenant server", s.Name())
			s.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
			resp, err := client.Get("https://" + listener.Addr().String())
			if cancel(); err == nil {
				resp.Body.Close()
			}
			require.NoError(t, <-ended)
			require.NoError(t, err)
			require.Equal(t, http.StatusNoContent, resp.StatusCode)
			require.Equal(t, 2, strings.Count(log.String(), "the metrics of a webhook failed"))
		})
	}
}

// counts are metrics that write down what they hear.
type counts struct {
	mu  sync.Mutex
	log []string
}

func (c *counts) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *counts) Register(path string) webhook.Metrics {
	c.note("register %s", path)
	return countsOf{c, path}
}

type countsOf struct {
	*counts
	path string
}

func (c countsOf) Started() { c.note("started %s", c.path) }

func (c countsOf) Ended(code int, _ time.Duration, panicked bool) {
	c.note("ended %s %d %t", c.path, code, panicked)
}

// A conversion that makes another object of one fails, and says what it lost. It was answered with
// success, and the API server refused every object of the kind.
func TestAConversionThatChangesTheIdentityFails(t *testing.T) {
	c := webhook.NewConversion[*corev1.ConfigMap](schema.GroupVersion{Group: "example.com", Version: "v2"})
	loses := func(_ context.Context, in, out *corev1.ConfigMap) error {
		*out = corev1.ConfigMap{TypeMeta: out.TypeMeta, Data: in.Data}
		return nil
	}
	webhook.Spoke(c, schema.GroupVersion{Group: "example.com", Version: "v1"}, loses, loses)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v2",
		"objects":[{"apiVersion":"example.com/v1","kind":"ConfigMap","metadata":{"name":"a","uid":"1"},"data":{"a":"b"}}]}}`)))
	require.Contains(t, w.Body.String(), `"status":"Failure"`)
	require.Contains(t, w.Body.String(), `the result is a different object: it has namespace \"\", name \"\" and UID \"\", but the original has \"\", \"a\" and \"1\"`)
}
