package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/source"
)

// A saved state must cost at most a list. The first object that a filtered source keeps may be thousands of
// objects away, and the check of the state reads them one by one, one request each.
func TestL20_ASavedStateOfAFilteredSourceDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		for n := range 700 {
			_, err := srv.Create(&corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("pod-", n)},
			})
			require.NoError(t, err)
		}
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		probes := 0
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("limit") == "1" {
					probes++
				}
				time.Sleep(100 * time.Millisecond) // the round trip
				return next.RoundTrip(r)
			})
		}}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		none := source.Filtered(rest.ResourceFor[*corev1.Pod](client).Source(), func(object.Head) bool { return false })
		r := reflector.New(none, deltafifo.New(deltafifo.Options{}), reflector.Options{})
		r.Resume(reflector.SavedState{RV: "2"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Hour)
		s := r.Status()
		cancel()
		require.NoError(t, <-ended)
		require.NotEmpty(t, s.RV, "after an hour and %d requests for one object: %s, %v", probes, s.State, s.Failure)
	})
}

// The server counts objects that a filtered source leaves out. That contradicts no saved state.
func TestC02_ASavedStateOfAFilteredSourceHasFewerObjectsThanTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		for n := range 3 {
			_, err := srv.Create(&corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("pod-", n)},
			})
			require.NoError(t, err)
		}
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		from := source.Filtered(rest.ResourceFor[*corev1.Pod](client).Source(), func(o object.Head) bool { return o.GetName() != "pod-1" })
		saved := reflector.SavedState{}
		list := from.List(t.Context(), source.Request{})
		for item, err := range list.Items {
			require.NoError(t, err)
			saved.Items = append(saved.Items, item)
		}
		require.Len(t, saved.Items, 2)
		saved.RV = list.Meta.ResourceVersion
		var refused error
		saved.Refuse = func(why error) { refused = why }
		r := reflector.New(from, deltafifo.New(deltafifo.Options{}), reflector.Options{})
		r.Resume(saved)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, refused)
		require.True(t, r.Status().Resumed)
	})
}

// A transform is called for the objects that a filter below it lets through, and for no others: it may fail on them,
// and a rollback of the server must be noticed nevertheless.
func TestL17_ATransformAboveAFilteredSourceHidesNoRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		create := func(name string) {
			_, err := srv.Create(&corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name},
			})
			require.NoError(t, err)
		}
		create("another")
		create("ours")
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		from := source.Filtered(rest.ResourceFor[*corev1.Pod](client).Source(), func(o object.Head) bool { return o.GetName() == "ours" })
		var strange []string
		from = reflector.Transformed(from, func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Name != "ours" {
				strange = append(strange, p.Name)
				return nil, errors.New("not ours")
			}
			return p, nil
		})
		r := reflector.New(from, deltafifo.New(deltafifo.Options{}), reflector.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Minute)
		backup := srv.Snapshot()
		create("lost")
		time.Sleep(time.Minute)
		require.NotEqual(t, backup.RV(), r.Status().RV)
		srv.Restore(backup)
		time.Sleep(time.Hour)
		rv := r.Status().RV
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, backup.RV(), rv)
		require.Empty(t, strange, "the transform got objects that are filtered out")
	})
}
