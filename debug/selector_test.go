package debug_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
)

// A selector is matched against every object: ten thousand requirements would take
// minutes.
func TestASelectorIsBounded(t *testing.T) {
	process := debug.New(debug.Options{})
	for count, want := range map[int]int{64: http.StatusNotFound, 65: http.StatusBadRequest} { // the informer does not exist
		var all []string
		for n := range count {
			all = append(all, fmt.Sprintf("!a%d", n))
		}
		w := httptest.NewRecorder()
		process.ServeHTTP(w, httptest.NewRequest(http.MethodGet, debug.Path+"v1/objects?selector="+url.QueryEscape(strings.Join(all, ",")), nil))
		require.Equal(t, want, w.Code, w.Body)
	}
}

// The search for objects stops when the caller has disconnected.
func TestSearchStopsWhenTheCallerDisconnects(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("shop", "p", ""))
		factory.Informer[*corev1.Pod](e.Factory)
		e.Factory.Start(e.Context())
		require.NoError(e, e.Factory.WaitForSync(e.Context()))
		ctx, cancel := context.WithCancel(e.Context())
		all := debug.Of(e.Factory)
		process := debug.New(debug.Options{Informers: func() []debug.Cluster { cancel(); return all() }})
		w := httptest.NewRecorder()
		process.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, debug.Path+"v1/objects", nil))
		require.Equal(e, http.StatusInternalServerError, w.Code)
		require.Contains(e, w.Body.String(), context.Canceled.Error())
	})
}
