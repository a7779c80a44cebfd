package debug_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
)

// slow is a connection whose client reads each part just before the deadline.
type slow struct {
	*httptest.ResponseRecorder
	due time.Time
}

func (s *slow) SetWriteDeadline(t time.Time) error { s.due = t; return nil }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(9 * time.Second)
	if time.Now().After(s.due) {
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), nil
}

// A response is in memory until it is sent. A client that reads very slowly is
// disconnected after less than a minute, and all such clients together hold at most 64
// MiB.
func TestSlowReadersHoldLittle(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		for n := range 12 { // the name of an owner may be any text, even one that JSON escapes
			p := pod("shop", fmt.Sprintf("p%02d", n), "")
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: strings.Repeat("<", 1<<20), UID: "u"}}
			controllertest.Put(e, p)
		}
		factory.Informer[*corev1.Pod](e.Factory)
		e.Factory.Start(e.Context())
		require.NoError(e, e.Factory.WaitForSync(e.Context()))
		process := debug.New(debug.Options{Informers: debug.Of(e.Factory)})
		one := httptest.NewRecorder()
		ask := func(w http.ResponseWriter) {
			process.ServeHTTP(w, httptest.NewRequest(http.MethodGet, debug.Path+"v1/objects?limit=1000", nil))
		}
		ask(one)
		size := one.Body.Len()
		require.Less(e, size, 16<<20, "a page is of about 8 MiB")
		began, refused := time.Now(), 0
		var mu sync.Mutex
		var readers sync.WaitGroup
		for range 20 {
			readers.Go(func() {
				w := &slow{ResponseRecorder: httptest.NewRecorder()}
				ask(w)
				mu.Lock()
				defer mu.Unlock()
				if w.Header().Get("Retry-After") != "" {
					refused++
				}
			})
		}
		readers.Wait()
		require.Less(e, time.Since(began), time.Minute)
		require.LessOrEqual(e, (20-refused)*size, 64<<20)
		require.Less(e, refused, 20)
		ask(one)
		require.Equal(e, http.StatusOK, one.Code)
	})
}
