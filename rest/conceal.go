package rest

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/wire"
)

// conceal returns what takes out of texts what an answer repeats of the credentials
// that it was asked with. Proxies, and servers that are being debugged, repeat
// headers in their pages and messages.
func (c *Client) conceal(resp *http.Response) func(string) string {
	return func(text string) string { return c.config.Conceal(text, resp.Request) }
}

// foreign is notTheAPI without what the answer repeats of the credentials.
func (c *Client) foreign(resp *http.Response) error {
	return notTheAPI(c.base.Host, resp, c.conceal(resp))
}

// concealed is an error about the body of a successful answer, without what it
// repeats of the credentials. Such errors hold words of the server: its Status, the
// kind that an object claims, its name.
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

// concealStatus takes the credentials out of every text of a Status.
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

// retoldAlone is an error in other words. It is what the original is, and does not
// show it.
type retoldAlone struct {
	text string
	is   func(target error) bool
}

func (e *retoldAlone) Error() string { return e.text }

// Is implements the interface of errors.Is.
func (e *retoldAlone) Is(target error) bool { return e.is(target) }
