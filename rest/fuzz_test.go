package rest

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/test/hostile"
	"github.com/millrace-dev/millrace/wire"
)

// FuzzRefusal parses a response that is not a success. Any input must lead to an error
// with a code and with a delay that is neither negative nor longer than the maximum.
func FuzzRefusal(f *testing.F) {
	f.Add(403, wire.MediaJSON, "", "", []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"details":{"retryAfterSeconds":3}}`))
	f.Add(429, wire.MediaProtobuf, "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT", encode(f, wire.MediaProtobuf, kindStatus, &metav1.Status{Code: 429, Details: &metav1.StatusDetails{RetryAfterSeconds: -1}}))
	f.Add(503, wire.MediaCBOR, "-1", "", encode(f, wire.MediaCBOR, kindStatus, &metav1.Status{Code: -7}))
	f.Add(502, "text/html; charset=utf-8", "2147483648", "", []byte("<html><title>Bad &amp; worse\x00</title>"))
	f.Add(500, "", "1e9", "", []byte("oh"))
	r := &request{verb: "get", what: "pods a", name: "a"}
	budget := hostile.Budget{Memory: 1 << 20, MemoryPerByte: 700}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, code int, media, retryAfter, date string, body []byte) {
		kept.Nothing(t)
		header := http.Header{"Content-Type": {media}, "Retry-After": {retryAfter}, "Date": {date}}
		var got *refusal
		budget.Within(t, len(media)+len(retryAfter)+len(date)+len(body), func() {
			got = newRefusal("host", r, &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}, plain)
		})
		require.Error(t, got)
		require.NotEqual(t, metav1.StatusSuccess, got.status.ErrStatus.Status)
		require.GreaterOrEqual(t, got.after, time.Duration(0))
		after, _ := source.RetryAfter(got.status)
		require.GreaterOrEqual(t, after, time.Duration(0))
		require.LessOrEqual(t, after, source.MaxRetryAfter)
		if wait, again := new(patience).next(got); again {
			require.GreaterOrEqual(t, wait, minRetryWait)
			require.LessOrEqual(t, wait, maxRetryWait)
		}
	})
}

// FuzzPage describes a response that is not from the API. The description is short and
// free of terminal escapes.
func FuzzPage(f *testing.F) {
	f.Add("text/html", []byte("<html><head><title>Sign in &#27;[31m</title></head></html>"))
	f.Add("application/json; x=\x1b", []byte("\x1b[2J{}"))
	budget := hostile.Budget{Memory: 1 << 20, MemoryPerByte: 700}
	var kept hostile.Kept
	f.Fuzz(func(t *testing.T, media string, body []byte) {
		kept.Nothing(t)
		var err error
		budget.Within(t, len(media)+len(body), func() {
			err = notTheAPI("host", &http.Response{Status: "200 OK", Header: http.Header{"Content-Type": {media}}}, body, plain)
		})
		require.Less(t, len(err.Error()), 2<<10)
		for _, r := range err.Error() {
			require.False(t, r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0, "%q", err)
		}
	})
}

// plain conceals nothing.
func plain(text string) string { return text }
