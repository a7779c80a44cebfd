package rest

import (
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/wire"
)

// maxStatusBytes limits the size of an unsuccessful response's body.
const maxStatusBytes = 1 << 20

// refusal is an unsuccessful response.
type refusal struct {
	status *apierrors.StatusError
	code   int

	// after is when to retry; asked is false if the server did not say. The Status cannot distinguish that
	// from zero seconds.
	after time.Duration
	asked bool
}

func (r *refusal) Error() string { return r.status.Error() }

// newRefusal reads the Status in the body. If there is none, because the response is from a proxy or the
// API server's web server, it builds one. The Status details contain the requested delay, rounded up to
// seconds, whether it was sent in seconds, as a date or in the body. conceal removes echoed credentials.
func newRefusal(host string, r *request, resp *http.Response, conceal func(string) string) *refusal {
	f := &refusal{code: resp.StatusCode}
	f.after, f.asked = retryAfterHeader(resp.Header)
	seconds := int(min(math.Ceil(f.after.Seconds()), math.MaxInt32))

	body, readErr := readBody(resp, maxStatusBytes)
	if encoding := contentEncoding(resp); encoding != "" {
		body = fmt.Appendf(nil, "a body with content encoding %q, which was not requested", excerpt(encoding))
	}
	if status := readStatus(resp.Header.Get("Content-Type"), body); status != nil && readErr == nil {
		f.status = status
	} else {
		f.status = foreignStatus(host, r, resp, foreignText(resp.Header.Get("Content-Type"), body, conceal), seconds)
	}
	s := &f.status.ErrStatus
	concealStatus(s, conceal)
	if s.Code == 0 {
		s.Code = int32(resp.StatusCode)
	}
	if s.Message == "" {
		s.Message = strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, s.Reason)) + fmt.Sprintf(" from %s without a message (%s)", host, r.describe())
	}
	if s.Details == nil && seconds > 0 {
		s.Details = &metav1.StatusDetails{}
	}
	if s.Details != nil {
		s.Details.RetryAfterSeconds = max(s.Details.RetryAfterSeconds, int32(seconds))
		f.after = max(f.after, time.Duration(s.Details.RetryAfterSeconds)*time.Second)
		f.asked = f.asked || s.Details.RetryAfterSeconds > 0
	}
	return f
}

// contentEncoding returns the encoding of a body that was encoded even though the client did not request
// it, or "".
func contentEncoding(resp *http.Response) string {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "identity" {
		return encoding
	}
	return ""
}

// readStatus returns nil if body is not a Status that reports a failure.
func readStatus(contentType string, body []byte) *apierrors.StatusError {
	dec, err := wire.NewDecoder(contentType, wire.Options{Type: reflect.TypeFor[*metav1.PartialObjectMetadata](),
		Kind: metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"),
	})
	if err != nil {
		return nil
	}
	_, err = dec.Object(body)
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Status == metav1.StatusSuccess {
		return nil
	}
	return status
}

// routerNotFound is the text, rather than a Status, that the API server sends for a path that it does not
// serve, such as that of an unknown kind. For a missing object it sends a Status.
const routerNotFound = "404 page not found"

// foreignStatus creates a Status for a response without one. Apimachinery has good messages for the codes
// that API servers use. For web pages, and for other codes such as 502, the code, the host and the title are
// more informative. A 404 that is not from the API server becomes "unavailable", because it does not mean
// that the object is missing.
func foreignStatus(host string, r *request, resp *http.Response, body []byte, seconds int) *apierrors.StatusError {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	text := excerpt(string(body))
	page := text != "" && media != "text/plain" && media != wire.MediaJSON
	if text == "" {
		text = "unknown"
	}
	status := apierrors.NewGenericServerResponse(resp.StatusCode, r.verb, r.resource, r.name, text, seconds, true)
	s := &status.ErrStatus
	foreign := s.Reason == metav1.StatusReasonInternalError && resp.StatusCode != http.StatusInternalServerError
	switch {
	case resp.StatusCode == http.StatusNotFound && strings.TrimSpace(string(body)) != routerNotFound:
		// Callers that mistook this for a missing object would forget an object that exists.
		foreign, s.Reason = true, metav1.StatusReasonServiceUnavailable
	case foreign:
		s.Reason = metav1.StatusReason(strings.ReplaceAll(http.StatusText(resp.StatusCode), " ", ""))
	}
	switch answer := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))); {
	case page:
		s.Message = fmt.Sprintf("%s from %s with %s (%s)", answer, host, describePage(media, body), r.describe())
	case foreign:
		s.Message = fmt.Sprintf("%s from %s: %s (%s)", answer, host, text, r.describe())
	}
	return status
}

// excerpt makes untrusted text safe for a message: one line of at most 100 printable characters.
func excerpt(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.TrimSpace(s) {
		if n++; n > 100 {
			b.WriteString("...")
			break
		}
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r == utf8.RuneError || !unicode.IsPrint(r):
			b.WriteByte('.')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// retryAfterHeader parses Retry-After, which is a number of seconds or a date (RFC 9110, section
// 10.2.3). A date is compared with the server's own clock if the response has a Date.
func retryAfterHeader(h http.Header) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, at.Sub(now)), true
}
