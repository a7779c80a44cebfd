package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/source"
)

// shardSelector is the parameter of KEP-5866. metav1.ListOptions has it since v0.36.
const shardSelector = "shardSelector"

// ask sends a list or a watch with the selector, once more without it where that is refused,
// and says whether the answer is to a request with it.
func (r *reading) ask(ctx context.Context, c call) (req *request, resp *http.Response, selecting bool, err error) {
	if confidential.Named(r.kind.Kind) || confidential.Type(r.declared) {
		ctx = confidential.Mark(ctx) // a recorder sees neither
	}
	s := r.Selection
	if s.Selector == "" {
		req, resp, err = r.send(ctx, c)
		return req, resp, false, err
	}
	c.query.Set(shardSelector, s.Selector)
	if req, resp, err = r.send(ctx, c); err == nil {
		s.Tell(source.SelectionNotTold)
		return req, resp, true, nil
	}
	if !refusesSelector(err) {
		return req, resp, false, err
	}
	c.query.Del(shardSelector)
	if req, resp, err = r.send(ctx, c); err == nil {
		s.Tell(source.NotSelected)
	}
	return req, resp, false, err
}

// refusesSelector reports whether a request may have been refused for its selector: because
// it is not understood, or because it makes the URL too long for what is in between.
func refusesSelector(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return strings.Contains(err.Error(), "header list larger than") // by net/http, for what the server has said
	}
	switch status.ErrStatus.Code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return true
	case http.StatusInternalServerError: // as which v1.36 answers what it cannot read
		return strings.Contains(status.ErrStatus.Message, "shard selector")
	}
	return false
}
