package lease

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

var (
	leases = coordinationv1.SchemeGroupVersion.WithResource("leases")
	key    = object.Key{Namespace: "shop", Name: "janitor"}
)

// rig is a simulated API server, a Lease in it that is ours, and a client for it.
type rig struct {
	*testing.T
	*Client
	srv    *apiservertest.Server
	ours   *coordinationv1.Lease
	answer func(*http.Request) *http.Response // a proxy's; nil, or one that returns nil, for the server's
}

func (r *rig) RoundTrip(base http.RoundTripper, req *http.Request) (*http.Response, error) {
	if r.answer != nil {
		if resp := r.answer(req); resp != nil {
			return resp, nil
		}
	}
	return base.RoundTrip(req)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func inBubble(t *testing.T, body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, srv: apiservertest.New(apiservertest.Options{})}
		defer r.srv.Close()
		endpoint, err := r.srv.Pipe()
		require.NoError(t, err)
		scheme := runtime.NewScheme()
		require.NoError(t, coordinationv1.AddToScheme(scheme))
		client, err := rest.NewClient(&config.Config{
			Host: endpoint.URL, Dial: endpoint.DialContext,
			WrapTransport: func(base http.RoundTripper) http.RoundTripper {
				return tripper(func(req *http.Request) (*http.Response, error) { return r.RoundTrip(base, req) })
			},
		}, scheme)
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		r.Client, err = NewClient(client, key.Namespace)
		require.NoError(t, err)
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
		Acquire(l, "a", 15*time.Second)
		r.ours, err = r.Create(t.Context(), l)
		require.NoError(t, err)
		body(r)
	})
}

// put writes the Lease as another client.
func (r *rig) put(change func(*coordinationv1.Lease)) {
	r.Helper()
	o, err := r.srv.Get(leases, key)
	require.NoError(r, err)
	l := o.DeepCopyObject().(*coordinationv1.Lease)
	change(l)
	_, err = r.srv.Put(l)
	require.NoError(r, err)
}

func renew(l *coordinationv1.Lease) { Renew(l, time.Minute) }

func TestChangeKeepsWhatOthersWrote(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} })
		asked := false
		now, err := r.Change(r.Context(), r.ours, func(now *coordinationv1.Lease) error {
			asked = true
			require.True(r, SameTerm(now, r.ours))
			return nil
		}, renew)
		require.NoError(r, err)
		require.True(r, asked)
		require.Equal(r, "b", now.Labels["a"])
		require.Equal(r, time.Minute, Lasts(now, 0))
		require.Equal(r, 15*time.Second, Lasts(r.ours, 0), "it was not changed")

		time.Sleep(time.Second) // a renewal at the same moment changes nothing
		_, err = r.Change(r.Context(), now, func(*coordinationv1.Lease) error { r.Error("asked without a conflict"); return nil }, renew)
		require.NoError(r, err)
	})
}

func TestChangeLeavesALeaseOfOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })
		taken := errors.New("taken")
		now, err := r.Change(r.Context(), r.ours, func(*coordinationv1.Lease) error { return taken }, renew)
		require.ErrorIs(r, err, taken)
		require.Equal(r, "b", Holder(now))
		now, err = r.Get(r.Context(), key.Name)
		require.NoError(r, err)
		require.Equal(r, 15*time.Second, Lasts(now, 0))
	})
}

func TestDeleteLeavesALeaseThatHasChanged(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.put(renew)
		require.True(r, apierrors.IsConflict(r.Delete(r.Context(), r.ours)))
		now, err := r.Get(r.Context(), key.Name)
		require.NoError(r, err)
		require.NoError(r, r.Delete(r.Context(), now))
		require.NoError(r, r.Delete(r.Context(), now), "it is gone already")
		_, err = r.Get(r.Context(), key.Name)
		require.True(r, failure.Missing(err))
		_, err = r.Change(r.Context(), now, nil, renew)
		require.True(r, failure.Missing(err))
	})
}

// response is a proxy's.
func response(req *http.Request, code int, kind, text string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Request: req,
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
	}
}

func TestAPageDoesNotSayThatALeaseIsMissing(t *testing.T) {
	for kind, text := range map[string]string{"text/html": "<html><head><title>Not here</title></head></html>", "text/plain": "404 page not found\n"} {
		inBubble(t, func(r *rig) {
			r.answer = func(req *http.Request) *http.Response { return response(req, http.StatusNotFound, kind, text) }
			_, err := r.Get(r.Context(), key.Name)
			require.Error(r, err)
			require.False(r, failure.Missing(err), kind)
			require.Error(r, r.Delete(r.Context(), r.ours))
		})
	}
}

// A success that is not the API server's is none.
func TestAnAnswerThatIsNotTheLeaseIsAnError(t *testing.T) {
	for name, meta := range map[string]string{
		"empty":     `{}`,
		"name":      `{"name":"other","namespace":"shop","resourceVersion":"99","uid":"UID"}`,
		"unwritten": `{"name":"janitor","namespace":"shop","resourceVersion":"RV","uid":"UID"}`,
		"uid":       `{"name":"janitor","namespace":"shop","resourceVersion":"99","uid":"another"}`,
		"":          `{"name":"janitor","namespace":"shop","resourceVersion":"99","uid":"UID"}`, // it is
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.answer = func(req *http.Request) *http.Response {
					meta := strings.NewReplacer("RV", r.ours.ResourceVersion, "UID", string(r.ours.UID)).Replace(meta)
					spec := `{"holderIdentity":"a","acquireTime":"` + r.ours.Spec.AcquireTime.UTC().Format(metav1.RFC3339Micro) + `"}`
					return response(req, http.StatusOK, "application/json", `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":`+meta+`,"spec":`+spec+`}`)
				}
				_, err := r.Update(r.Context(), r.ours)
				require.Equal(r, name != "", err != nil, "%v", err)
				other := r.ours.DeepCopy()
				other.Spec.LeaseTransitions = new(int32(3))
				_, err = r.Update(r.Context(), other)
				require.Error(r, err, "another term")
				fresh := r.ours.DeepCopy()
				fresh.UID, fresh.ResourceVersion = "", ""
				_, err = r.Create(r.Context(), fresh)
				require.Equal(r, name == "empty" || name == "name", err != nil, "%v", err)
				_, err = r.Get(r.Context(), key.Name)
				require.Equal(r, name == "empty" || name == "name", err != nil, "%v", err)
			})
		})
	}
}

func TestAClientThatCannotReadLeases(t *testing.T) {
	_, err := NewClient(nil, "shop")
	require.EqualError(t, err, "the client is nil")
	bare, err := rest.NewClient(&config.Config{Host: "http://127.0.0.1:1"}, runtime.NewScheme())
	require.NoError(t, err)
	_, err = NewClient(bare, "shop")
	require.ErrorContains(t, err, "does not include Lease")
}

func TestATransportThatPanicsIsAnError(t *testing.T) {
	_, err := Guard(func() (*coordinationv1.Lease, error) { panic("boom") })
	require.ErrorContains(t, err, "the client's transport panicked: boom")
	now, err := Guard(func() (*coordinationv1.Lease, error) { return &coordinationv1.Lease{}, nil })
	require.NoError(t, err)
	require.NotNil(t, now)
}
