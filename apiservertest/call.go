package apiservertest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// call is one request in progress. Except for cancel, it belongs to the goroutine that serves the request.
type call struct {
	server *Server
	id     int // sequence number
	w      *response
	r      *http.Request
	ctx    context.Context
	cancel context.CancelCauseFunc

	requestInfo
	user    string
	faults  *plan
	coll    *collection
	sub     *subresource // nil for the object itself and its status
	reading *reading     // how the server reads objects stored in coll; nil if it reads them unchanged
	format  format
}

// ServeHTTP serves the Kubernetes API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := s.begin(w, r)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	defer s.end(c)
	// A client that has stopped reading must not keep its request open: the deadline unblocks the write.
	control := http.NewResponseController(w)
	unblocked := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(unblocked)
		// If deadlines are not supported, closing the connection also unblocks the write.
		_ = control.SetWriteDeadline(time.Unix(1, 0))
	})
	err := c.serve()
	if !stop() {
		<-unblocked
	}
	s.stats.request(c)
	if errors.Is(err, errCut) || errors.Is(context.Cause(c.ctx), errCut) {
		panic(http.ErrAbortHandler)
	}
	if err != nil && c.ctx.Err() == nil {
		s.opts.Logger.Debug("request failed", "verb", c.verb, "path", r.URL.Path, "error", err)
	}
}

// serve handles the request. If it returns an error, the response is incomplete. If that error is errCut,
// the caller must break the connection.
func (c *call) serve() error {
	c.requestInfo = parseRequest(c.r)
	c.server.stats.arrived(c)
	c.faults = c.server.faults.plan(c)
	c.w.cutAfter, c.w.alters, c.w.headers = c.faults.cutAfter, newAlterations(c.faults.alters), c.faults.headers
	if err := c.misbehave(); err != nil {
		return c.answer(err)
	}
	if a := c.faults.answer; a != nil {
		c.w.Header().Set("Content-Type", typeJSON)
		c.w.WriteHeader(cmp.Or(a.Code, http.StatusOK))
		_, err := c.w.Write(a.Body)
		return err
	}
	if err := c.admit(); err != nil {
		return c.answer(err)
	}
	if c.resource == "" {
		return c.answer(c.serveOther())
	}
	return c.answer(c.serveResource())
}

// answer sends the response for a *StatusError and returns other errors.
func (c *call) answer(err error) error {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) {
		return err
	}
	return c.sendStatus(status.Status())
}

// misbehave injects the faults that take effect before the response.
func (c *call) misbehave() error {
	if c.faults.delay > 0 {
		if err := c.sleep(c.faults.delay); err != nil {
			return err
		}
	}
	if c.faults.compact {
		c.server.Compact()
	}
	if c.faults.cutAfter == 0 {
		return errCut
	}
	if c.faults.silentAt == 0 {
		return c.hang()
	}
	if fail := c.faults.fail; fail != nil {
		if fail.RetryAfter != "" {
			c.w.Header().Set("Retry-After", fail.RetryAfter)
		}
		return &apierrors.StatusError{ErrStatus: fail.status()}
	}
	return nil
}

// sleep waits for d or until the request ends.
func (c *call) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// hang keeps the connection open and sends nothing until the client disconnects.
func (c *call) hang() error {
	<-c.ctx.Done()
	return context.Cause(c.ctx)
}

// serveResource dispatches on verb and resource.
func (c *call) serveResource() error {
	if err := c.find(); err != nil {
		return err
	}
	if c.coll == nil {
		return c.notServed()
	}
	f, err := c.negotiate()
	if err != nil {
		return err
	}
	c.format = f
	if load := c.server.opts.loadOf(c.gvr()); load != nil {
		switch c.verb {
		case "list":
			return load.list(c)
		case "watch":
			return load.watch(c)
		}
	}
	if c.sub != nil {
		return c.serveExtra()
	}
	switch c.verb {
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "get":
		return c.get()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	case "deletecollection":
		return c.deleteCollection()
	}
	return methodNotAllowed()
}

// notServed responds to a request for an unknown resource. It sends a Status if the group version is known,
// and a plain 404 page otherwise.
func (c *call) notServed() error {
	if c.server.serves(c.group, c.version) {
		return notServed()
	}
	http.NotFound(c.w, c.r)
	return nil
}

// find looks up the resource. coll remains nil if it is not served.
func (c *call) find() error {
	s := c.server
	s.mu.Lock()
	coll, reading := s.collections[c.gvr()], s.readings[c.gvr()]
	s.mu.Unlock()
	if coll == nil {
		return nil
	}
	sub := coll.extra(c.subresource)
	if c.subresource != "" && sub == nil && (c.subresource != "status" || !coll.Status) {
		return nil
	}
	if c.name != "" && coll.Namespaced != (c.namespace != "") {
		return nil
	}
	if !coll.Namespaced && c.namespace != "" {
		return nil
	}
	if sub != nil {
		c.coll, c.reading, c.sub = coll, reading, sub
		return nil
	}
	everywhere := coll.Namespaced && c.namespace == ""
	switch c.verb {
	case "create":
		if c.name != "" || everywhere {
			return methodNotAllowed()
		}
	case "update", "patch":
		if c.name == "" {
			return methodNotAllowed()
		}
	case "delete":
		if c.subresource != "" {
			return methodNotAllowed()
		}
	case "deletecollection":
		if everywhere || coll.noDeleteCollection {
			return methodNotAllowed()
		}
	}
	c.coll, c.reading = coll, reading
	return nil
}

// sendStatus sends a Status as the response.
func (c *call) sendStatus(status metav1.Status) error {
	f := formatJSON
	if negotiated, err := negotiate(c.r.Header.Get("Accept"), false, false); err == nil {
		f = negotiated
	}
	body, err := encodeStatus(status, f)
	if err != nil {
		return err
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 && c.w.Header().Get("Retry-After") == "" {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	code := int(status.Code)
	if code == 0 {
		code = http.StatusOK
	}
	return c.send(code, f, body)
}

// sendVersion sends one object as the response.
func (c *call) sendVersion(code int, v *version) error {
	e, err := v.readAs(c.reading).encode(c.format)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return c.send(code, c.format, e.body)
}

func (c *call) send(code int, f format, body []byte) error {
	c.w.Header().Set("Content-Type", f.mediaType())
	c.w.WriteHeader(code)
	if f.mediaType() == typeJSON {
		body = append(body[:len(body):len(body)], '\n')
	}
	_, err := c.w.Write(body)
	return err
}
