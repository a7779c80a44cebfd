package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/millrace-dev/millrace/wire"
)

// conceal returns a function that removes the request's credentials from text. Proxies and
// servers in debug mode echo request headers in their pages and messages.
func (c *Client) conceal(resp *http.Response) func(string) string {
	return func(text string) string { return c.config.Conceal(text, resp.Request) }
}

// foreign is notTheAPI for resp, with the request's credentials removed.
func (c *Client) foreign(resp *http.Response) error {
	start, _ := readBody(resp, maxPageStart) // the beginning is enough, even if the rest cannot be read
	return notTheAPI(c.base.Host, resp, start, c.conceal(resp))
}

// concealed removes the request's credentials from an error about the body of a successful
// response. Such errors quote the server: its Status, or an object's kind or name.
func (c *Client) concealed(resp *http.Response, err error) error {
	conceal := c.conceal(resp)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		concealStatus(&status.ErrStatus, conceal)
		return err
	}
	text := err.Error()
	shown := conceal(text)
	if shown == text {
		return err
	}
	told := &retoldAlone{conceal(text), func(target error) bool { return errors.Is(err, target) }}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		told.text = conceal(e.Err.Error())
		key := e.Key
		key.Namespace, key.Name = conceal(key.Namespace), conceal(key.Name)
		return &wire.Error{Media: e.Media, Where: e.Where, Key: key, Bytes: e.Bytes, Err: told}
	}
	return told
}

// concealDocument removes credentials from every string in a discovery document. It skips strings that may
// be names, because a password may be a word such as "list" or "nodes".
func concealDocument(body []byte, conceal func(string) string) []byte {
	whole := conceal(string(body))
	if whole == string(body) {
		return body
	}
	var document any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	err := decoder.Decode(&document)
	if _, end := decoder.Token(); err != nil || end != io.EOF {
		return []byte(whole) // the text is not valid JSON and will only be quoted in an error
	}
	shown, err := json.Marshal(concealTexts(document, conceal))
	if err != nil {
		return []byte(whole)
	}
	return shown
}

// concealTexts is like concealDocument, for one JSON value.
func concealTexts(value any, conceal func(string) string) any {
	switch v := value.(type) {
	case string:
		if !maybeName(v) {
			return conceal(v)
		}
	case []any:
		for i := range v {
			v[i] = concealTexts(v[i], conceal)
		}
	case map[string]any:
		shown := make(map[string]any, len(v))
		for key, inside := range v {
			if !maybeName(key) {
				key = conceal(key)
			}
			shown[key] = concealTexts(inside, conceal)
		}
		return shown
	}
	return value
}

// nameDigits is the number of digits from which a string may be a credential rather than a name such as
// "v1beta1", "x509" or "storage.k8s.io".
const nameDigits = 4

// maybeName reports whether text could be the name of a kind, resource, verb or group
// version: labels with few digits, separated by dots or slashes.
func maybeName(text string) bool {
	digits := 0
	for _, label := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '/' }) {
		if len(validation.IsDNS1123Label(strings.ToLower(label))) > 0 {
			return false
		}
	}
	for _, r := range text {
		if r >= '0' && r <= '9' {
			digits++
		}
	}
	return digits < nameDigits
}

// concealStatus removes credentials from every string in a Status.
func concealStatus(s *metav1.Status, conceal func(string) string) {
	s.Message, s.Reason, s.Status = conceal(s.Message), metav1.StatusReason(conceal(string(s.Reason))), conceal(s.Status)
	s.Kind, s.APIVersion = conceal(s.Kind), conceal(s.APIVersion)
	//lint:ignore SA1019 a server may still send it
	s.SelfLink, s.ResourceVersion, s.Continue = conceal(s.SelfLink), conceal(s.ResourceVersion), conceal(s.Continue)
	d := s.Details
	if d == nil {
		return
	}
	d.Name, d.Group, d.Kind = conceal(d.Name), conceal(d.Group), conceal(d.Kind)
	d.UID = types.UID(conceal(string(d.UID)))
	for i, cause := range d.Causes {
		d.Causes[i] = metav1.StatusCause{Type: metav1.CauseType(conceal(string(cause.Type))), Message: conceal(cause.Message), Field: conceal(cause.Field)}
	}
}

// retoldAlone replaces an error's text. It matches the same targets in errors.Is but cannot be unwrapped, so
// the original text stays hidden.
type retoldAlone struct {
	text string
	is   func(target error) bool
}

func (e *retoldAlone) Error() string { return e.text }

func (e *retoldAlone) Is(target error) bool { return e.is(target) }
