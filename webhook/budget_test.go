package webhook

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/test/hostile"
)

// A single review is limited by its size, not by the remaining budget.
func TestTooLargeReviewIsRefusedWithAMessage(t *testing.T) {
	require.Greater(t, admissionBudget, maxAdmission)
	require.Greater(t, conversionBudget, maxConversion)
	for _, limit := range []int{100, firstRead - 1, firstRead, 4 * firstRead, 5 * firstRead} {
		held := newBudget(int64(limit) + 1)
		for code, size := range map[int]int{http.StatusOK: limit, http.StatusRequestEntityTooLarge: limit + 1} {
			var review conversionReview
			w := httptest.NewRecorder()
			body := strings.NewReader("{}" + strings.Repeat(" ", size-2))
			release, ok := read(w, httptest.NewRequest(http.MethodPost, "/", body), int64(limit), int64(limit), held, &review)
			require.Equal(t, code, w.Code, "limit %d: %s", limit, w.Body)
			if require.Equal(t, code == http.StatusOK, ok); ok {
				release()
			}
			require.EqualValues(t, limit+1, held.left.Load(), "it was given back")
		}
	}
}

// A small review cannot become large when it is decoded, whether or not the API server would send it.
func TestAReviewDoesNotGrow(t *testing.T) {
	const admission, conversion = `"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`, `"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"`
	review := func(is, of string) string {
		return `{` + is + `,"request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},` + of + `},"response":{"result":{"details":{"causes":[` +
			strings.Repeat("{},", 1<<20) + `{}]}},"convertedObjects":[` + strings.Repeat("0,", 1<<20) + `0]}}`
	}
	validate := Validate(func(context.Context, *Request[*corev1.Pod]) error { return nil })
	mutate := Mutate(func(_ context.Context, r *Request[*corev1.Pod]) error {
		r.Object.Labels = map[string]string{"a": "b"}
		return nil
	})
	convert := NewConversion[*corev1.Pod](corev1.SchemeGroupVersion)
	for name, c := range map[string]struct {
		handler http.Handler
		body    string
		code    int
	}{
		"an answer":            {validate, review(admission, `"name":"a"`), http.StatusOK},
		"groups":               {validate, review(admission, `"userInfo":{"groups":[`+strings.Repeat(`"",`, 2<<20)+`""]}`), http.StatusRequestEntityTooLarge},
		"an answer of objects": {convert, review(conversion, `"desiredAPIVersion":"v1","objects":[]`), http.StatusOK},
		"a pod":                {validate, review(admission, `"object":{"spec":{"containers":[`+strings.Repeat("{},", 1<<20)+`{}]}}`), http.StatusRequestEntityTooLarge},
		"an unknown field":     {mutate, review(admission, `"object":{"x":[`+strings.Repeat(`{"a":0},`, 1<<20)+`0]}`), http.StatusRequestEntityTooLarge},
		"a pod that was":       {validate, review(admission, `"oldObject":{"spec":{"containers":[`+strings.Repeat("0,", 1<<20)+`0]}}`), http.StatusRequestEntityTooLarge},
		"objects":              {convert, review(conversion, `"desiredAPIVersion":"v1","objects":[`+strings.Repeat("0,", 2<<20)+`0]`), http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var w *httptest.ResponseRecorder
			hostile.Budget{Memory: 1 << 20, MemoryPerByte: 6}.Within(t, len(c.body), func() {
				w = httptest.NewRecorder()
				c.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)))
			})
			require.Equal(t, c.code, w.Code, w.Body)
			if c.code != http.StatusOK {
				require.Regexp(t, "decoded review is larger than [0-9]+ bytes: it contains too many objects, or too much data in one of them", w.Body.String())
			}
		})
	}
}

// Responses repeat untrusted text without HTML escapes, which would make six bytes of one.
func TestAnAnswerDoesNotGrow(t *testing.T) {
	const admission, conversion = `"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`, `"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"`
	long := strings.Repeat("<", 4<<20)
	validate := Validate(func(context.Context, *Request[*corev1.Pod]) error { return nil })
	convert := NewConversion[*corev1.Pod](corev1.SchemeGroupVersion)
	for name, c := range map[string]struct {
		handler         http.Handler
		is, of          string
		code, perAnswer int
	}{
		"a UID":                    {validate, admission, `"uid":"` + long + `"`, http.StatusBadRequest, 0},
		"a UID of a conversion":    {convert, conversion, `"uid":"` + long + `"`, http.StatusBadRequest, 0},
		"a version":                {convert, conversion, `"desiredAPIVersion":"` + long + `"`, http.StatusOK, 0},
		"no version":               {convert, conversion, `"desiredAPIVersion":"//` + long + `"`, http.StatusOK, 0},
		"the version of an object": {convert, conversion, `"desiredAPIVersion":"v1","objects":[{"kind":"Pod","apiVersion":"` + long + `"}]`, http.StatusOK, 0},
		"an object as it came":     {convert, conversion, `"desiredAPIVersion":"v1","objects":[{"kind":"Pod","apiVersion":"v1","a":"` + long + `"}]`, http.StatusOK, 1},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{` + c.is + `,"request":{` + c.of + `}}`
			var w *httptest.ResponseRecorder
			hostile.Budget{Memory: 1 << 20, MemoryPerByte: 8 + 4*c.perAnswer}.Within(t, len(body), func() {
				w = httptest.NewRecorder()
				c.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
			})
			require.Equal(t, c.code, w.Code)
			require.Less(t, w.Body.Len(), 1<<10+c.perAnswer*len(body))
		})
	}
}

// A review takes as much of the budget as it weighs, and gives it back.
func TestReviewTakesItsWeightFromTheBudget(t *testing.T) {
	const objects = 1000
	held := newBudget(objects*objectWeight + objects)
	body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"objects":[` + strings.Repeat(`"a,\"[",`, objects-1) + `[1,{"b":[2,3]}]]}}`
	before := held.left.Load()
	for range 2 {
		var first, second conversionReview
		w := httptest.NewRecorder()
		release, ok := read(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), maxConversion, maxConversion, held, &first)
		require.True(t, ok, w.Body)
		require.Len(t, first.Request.objects, objects)
		require.EqualValues(t, objects*objectWeight, before-held.left.Load())
		_, ok = read(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), maxConversion, maxConversion, held, &second)
		require.False(t, ok)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		release()
		require.Equal(t, before, held.left.Load())
	}
}

// A review as the API server sends them is answered, however many objects and groups it has.
func TestAReviewOfManyObjects(t *testing.T) {
	of := func(n int, each string) string { return strings.Repeat(each+",", n-1) + each }
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"63cb1b8e-8ba7-4b3c-9d6c-5b2d0f1ee0f1"}}`
	for body, h := range map[string]http.Handler{
		fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"v1","objects":[%s]}}`, of(100_000, object)): NewConversion[*corev1.Pod](corev1.SchemeGroupVersion),
		fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"userInfo":{"groups":[%s]},"object":%s}}`, of(10_000, `"system:masters"`), object): Validate(func(_ context.Context, r *Request[*corev1.Pod]) error {
			require.Len(t, r.UserInfo.Groups, 10_000)
			return nil
		}),
	} {
		c := &call{admission: newBudget(admissionBudget), conversion: newBudget(conversionBudget)}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		h.ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), callKey{}, c)))
		require.Equal(t, http.StatusOK, w.Code)
		require.NotContains(t, w.Body.String(), "Failure")
	}
}
