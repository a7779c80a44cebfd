package factory_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// nowhere is a factory whose server does not answer.
func nowhere(t *testing.T) *factory.Factory {
	client, err := rest.NewClient(&config.Config{Host: "http://127.0.0.1:1"}, scheme.New())
	require.NoError(t, err)
	return factory.New(client, factory.Options{SyncPatience: time.Millisecond})
}

// waitForSync starts a factory, waits, and stops it.
func waitForSync(t *testing.T, f *factory.Factory) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer f.Wait()
	defer cancel()
	f.Start(ctx)
	return f.WaitForSync(ctx)
}

func TestReleasedInformersNoLongerContradict(t *testing.T) {
	for name, c := range map[string]struct {
		ask factory.For[*corev1.Pod]
		say string
	}{
		"fields": {factory.For[*corev1.Pod]{Keep: wire.WithoutManagedFields}, "requested with Keep"},
		"store":  {factory.For[*corev1.Pod]{Store: sharedinformer.Packed}, "requested with Store packed, but the informer already exists with whole"},
	} {
		t.Run(name, func(t *testing.T) {
			f := nowhere(t)
			factory.Informer[*corev1.Pod](f)
			_, giveBack := factory.Borrow(f, c.ask)
			require.ErrorContains(t, waitForSync(t, f), c.say)
			<-giveBack()
			require.NotContains(t, waitForSync(t, f).Error(), c.say)
		})
	}
}

// The server knows the group but not the kind.
func TestAKindIsOptionalAgainOnceAllUsersThatNeedItHaveLeft(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	client, err := rest.NewClient(&config.Config{Host: srv.URL}, scheme.New())
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	f := factory.New(client, factory.Options{SyncPatience: time.Second / 2})
	cart := object.GVK{Group: "shop.example", Version: "v1", Kind: "Cart"}
	factory.InformerWith(f, factory.For[*metav1.PartialObjectMetadata]{Kind: cart, Optional: true})
	_, giveBack := factory.Borrow(f, factory.For[*metav1.PartialObjectMetadata]{Kind: cart})
	require.ErrorContains(t, waitForSync(t, f), "Cart")
	<-giveBack()
	require.NoError(t, waitForSync(t, f))
}

// A share whose type is not comparable makes its informer fail, like any other bad option.
func TestAShareThatCannotBeComparedIsAFailure(t *testing.T) {
	f := nowhere(t)
	i := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: slices{}}}})
	require.ErrorContains(t, waitForSync(t, f), "needs a comparable type")
	require.ErrorContains(t, i.Status().Reflector.Failure, "needs a comparable type")
}

type slices struct{ _ []int }

func (slices) Owned() (shard.Slots, <-chan struct{}) { return shard.NewSlots(1), nil }
func (slices) Term(int) (shard.Token, bool)          { return shard.Token{}, false }
func (slices) Enter(context.Context, uint64) (context.Context, func(), error) {
	return nil, nil, shard.ErrNotOurs
}
