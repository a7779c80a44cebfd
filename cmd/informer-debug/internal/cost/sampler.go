package cost

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire"
)

const (
	mostSample   = 100000
	mostSampled  = 32 << 20 // bytes per type
	mostRuns     = 20       // positions in a list at which the sample is taken
	mostRequests = 100      // per type
	mostSkipped  = 2000     // objects per metadata request when skipping to the next position
	fourths      = 4        // parts of a sample, used to estimate the error
	answerWithin = time.Minute
	mostRefusal  = 1 << 20 // bytes to read of an error response
)

const asMetadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// sampler takes samples of lists, one request at a time.
type sampler struct {
	flags  *costFlags
	http   *http.Client
	base   *url.URL
	scheme *runtime.Scheme
	next   time.Time // earliest time of the next request
}

func newSampler(cfg *config.Config, f *costFlags) (*sampler, error) {
	client, base, err := cfg.HTTPClient()
	if err != nil {
		return nil, err
	}
	return &sampler{flags: f, http: client, base: base, scheme: scheme.New()}, nil
}

// page is one page of a list, as received.
type page struct {
	contentType string
	body        []byte
	objects     int
}

// sample is a sample of one list.
type sample struct {
	r        *sampler
	at       cluster.Target
	protobuf bool

	pages    []page
	objects  int // in the pages
	bytes    int // in the pages
	passed   int // number of objects read or skipped
	left     int // number of objects after those; -1 if unknown
	counted  int // number of all objects, if they had to be counted
	next     string
	requests int
	short    string // why the sample is smaller than requested
}

// read takes a sample of a list. It returns an error if nothing could be read.
func (s *sample) read(ctx context.Context) error {
	run := (s.r.flags.sample + mostRuns - 1) / mostRuns
	err := s.take(ctx, run)
	if err != nil {
		return err
	}
	if s.next != "" && s.left < 0 {
		err = s.count(ctx)
	}
	gap := max(0, s.all()-s.r.flags.sample) / max(1, (s.r.flags.sample-1)/run)
	for err == nil && s.next != "" && s.objects < s.r.flags.sample {
		switch {
		case s.requests >= mostRequests:
			s.short = fmt.Sprintf("ended after %d requests, after %d objects", s.requests, s.passed)
			return nil
		case s.bytes >= mostSampled:
			s.short = fmt.Sprintf("ended after %s, after %d objects", terminal.Bytes(int64(s.bytes)), s.passed)
			return nil
		}
		if err = s.skip(ctx, gap); err == nil && s.next != "" {
			err = s.take(ctx, min(run, s.r.flags.sample-s.objects))
		}
	}
	if err != nil && ctx.Err() == nil {
		s.short = fmt.Sprintf("ended after %d objects: %v", s.passed, err)
		return nil
	}
	return err
}

// count pages through the rest of a list whose length the server does not report. It does not change the
// position of s.
func (s *sample) count(ctx context.Context) error {
	ahead := *s
	var err error
	for ahead.next != "" && ahead.requests < mostRequests/2 && err == nil {
		err = ahead.skip(ctx, mostSkipped)
	}
	s.requests, s.counted = ahead.requests, ahead.passed
	if ahead.next != "" && err == nil {
		s.short = fmt.Sprintf("the server does not report the number of objects, and counting stopped after %d requests: there are more", ahead.requests)
	}
	return err
}

// all returns the number of objects in the list, if known.
func (s *sample) all() int { return max(s.passed+max(s.left, 0), s.counted) }

// take reads whole objects into the sample. If a page turns out too large, it switches to smaller ones.
func (s *sample) take(ctx context.Context, n int) error {
	for {
		room := mostSampled - s.bytes
		body, contentType, err := s.get(ctx, n, s.accept(""), func(body io.Reader) ([]byte, error) {
			return io.ReadAll(io.LimitReader(body, int64(room)+1))
		})
		switch {
		case err != nil:
			return err
		case len(body) > room && n > 1:
			n = (n + 1) / 2
			continue
		case len(body) > room:
			return fmt.Errorf("the next object exceeds the remaining %s of %s", terminal.Bytes(int64(room)), terminal.Bytes(mostSampled))
		}
		p := page{contentType, body, 0}
		if p.objects, err = s.pass(p.contentType, bytes.NewReader(body)); err != nil {
			return err
		}
		s.pages = append(s.pages, p)
		s.objects, s.bytes = s.objects+p.objects, s.bytes+len(body)
		return nil
	}
}

// skip skips n objects.
func (s *sample) skip(ctx context.Context, n int) error {
	for n > 0 && s.next != "" && s.requests < mostRequests {
		before := s.passed
		var contentType string
		_, _, err := s.getWith(ctx, min(n, mostSkipped), s.accept(asMetadata), func(resp *http.Response) ([]byte, error) {
			contentType = resp.Header.Get("Content-Type")
			_, err := s.pass(contentType, resp.Body)
			return nil, err
		})
		if err != nil {
			return err
		}
		n -= s.passed - before
		if s.passed == before {
			return errors.New("the server announced more objects but sent none")
		}
	}
	return nil
}

// pass reads one page and remembers where the next one starts.
func (s *sample) pass(contentType string, body io.Reader) (n int, err error) {
	d, err := wire.NewDecoder(contentType, wire.Options{Type: reflect.TypeFor[*metav1.PartialObjectMetadata](), Kind: s.at.Mapping.Kind, Keep: wire.Only()})
	if err != nil {
		return 0, fmt.Errorf("the response is not from the Kubernetes API; is a proxy or a login page in the way? %w", err)
	}
	var meta metav1.ListMeta
	for _, err := range d.List(body, &meta, nil) {
		if err != nil {
			return n, err
		}
		n++
	}
	if meta.Continue != "" && meta.Continue == s.next {
		return n, errors.New("the server returned the same continue token that it received")
	}
	s.passed, s.next, s.left = s.passed+n, meta.Continue, -1
	if meta.RemainingItemCount != nil {
		s.left = int(*meta.RemainingItemCount)
	}
	return n, nil
}

// accept returns the Accept header.
func (s *sample) accept(as string) string {
	if s.protobuf {
		return wire.MediaProtobuf + as + "," + wire.MediaJSON + as + "," + wire.MediaJSON
	}
	return wire.MediaJSON + as + "," + wire.MediaJSON
}

func (s *sample) get(ctx context.Context, limit int, accept string, read func(io.Reader) ([]byte, error)) (body []byte, contentType string, err error) {
	return s.getWith(ctx, limit, accept, func(resp *http.Response) ([]byte, error) { return read(resp.Body) })
}

// getWith waits until the next request is due, and requests the list's next page.
func (s *sample) getWith(ctx context.Context, limit int, accept string, read func(*http.Response) ([]byte, error)) (body []byte, contentType string, err error) {
	select {
	case <-time.After(time.Until(s.r.next)):
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	s.r.next = time.Now().Add(time.Duration(float64(time.Second) / s.r.flags.qps))
	s.requests++
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no complete response within %s", answerWithin))
	defer cancel()
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"continue": s.next, "labelSelector": s.r.flags.Selector, "fieldSelector": s.r.flags.FieldSelector} {
		if value != "" {
			query.Set(name, value)
		}
	}
	to := s.r.base.JoinPath(s.at.Path())
	to.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", accept)
	resp, err := s.r.http.Do(req)
	if err != nil {
		return nil, "", cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", s.refusal(resp)
	}
	body, err = read(resp)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return body, resp.Header.Get("Content-Type"), err
}

// refusal returns the error for a response that is not a list. It omits text that did not come from the API
// server, since that is untrusted.
func (s sample) refusal(resp *http.Response) error {
	_, err := s.pass(resp.Header.Get("Content-Type"), io.LimitReader(resp.Body, mostRefusal))
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status
	}
	return fmt.Errorf("status %s, but not from the Kubernetes API; is a proxy in the way?", resp.Status)
}

// cost measures one type.
func (r *sampler) cost(ctx context.Context, at cluster.Target) *cost {
	c := &cost{at: at, Type: object.ResourceName(at.Mapping.Resource)}
	opts := wire.Options{Scheme: r.scheme, Kind: at.Mapping.Kind}
	goType, typed := r.scheme.AllKnownTypes()[at.Mapping.Kind]
	typed = typed && object.IsBuiltin(goType)
	s := &sample{r: r, at: at, protobuf: typed && wire.SupportsProtobuf(opts)}
	if c.err = s.read(ctx); c.err == nil && typed {
		c.err = measureForms[object.Object](c, s, opts)
	} else if c.err == nil {
		c.err = measureForms[*unstructured.Unstructured](c, s, opts)
	}
	if c.err != nil {
		c.Error = terminal.OneLine(c.err.Error())
	}
	return c
}
