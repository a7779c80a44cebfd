package envtest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestParts runs an etcd and two API servers for it in separate processes.
func TestParts(t *testing.T) {
	etcd := Start(t, Options{OnlyEtcd: true, Quota: 8 << 20})
	require.True(t, strings.HasPrefix(etcd.URL, "http://127.0.0.1:"), etcd.URL)
	require.Empty(t, etcd.AdminToken)
	one := Start(t, Options{Etcd: etcd.URL})
	two := Start(t, Options{Etcd: etcd.URL, Like: one})
	require.Equal(t, one.CA, two.CA)
	require.Equal(t, one.AdminToken, two.AdminToken)
	_, err := etcd.AddUser(t.Context(), User{Name: "ann"})
	require.ErrorContains(t, err, "is it etcd alone?")
	_, err = Launch(t.Context(), Options{OnlyEtcd: true, Audit: AuditMetadata})
	require.ErrorContains(t, err, "leave out Files, Objects, Audit and Like")
	first, second := newCaller(t, one, one.AdminToken), newCaller(t, two, one.AdminToken)

	made := first.call(http.StatusCreated, http.MethodPost, configMaps, configMap("shared"))
	got := second.call(http.StatusOK, http.MethodGet, configMaps+"/shared", nil)
	require.Equal(t, made.Metadata, got.Metadata)
	_, err = one.Compact(t.Context())
	require.ErrorContains(t, err, "etcd runs in another process")
	_, err = etcd.Compact(t.Context())
	require.NoError(t, err)

	t.Run("a suspended server is silent", func(t *testing.T) {
		require.NoError(t, two.Suspend())
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, two.URL+configMaps, nil)
		require.NoError(t, err)
		_, err = second.http.Do(req)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		first.call(http.StatusOK, http.MethodGet, configMaps, nil)
		require.NoError(t, two.Resume())
		second.call(http.StatusOK, http.MethodGet, configMaps+"/shared", nil)
	})
	t.Run("a killed etcd comes back with its data", func(t *testing.T) {
		etcd.Kill()
		require.ErrorContains(t, etcd.Suspend(), "is not running")
		require.NoError(t, etcd.Restart(t.Context()))
		first.call(http.StatusOK, http.MethodGet, configMaps+"/shared", nil)
	})
	t.Run("a full etcd writes again when it is defragmented", func(t *testing.T) {
		large := func(n int, method, path string) int {
			body := configMap("large")
			body["data"] = map[string]any{strconv.Itoa(n): strings.Repeat("x", 1<<20-4096)} // unequal, since an unchanged object is not written
			return first.open(method, path, body).StatusCode
		}
		code := large(0, http.MethodPost, configMaps)
		for n := 1; code < http.StatusInternalServerError; n++ {
			require.Less(t, n, 20, "it takes more than its quota")
			code = large(n, http.MethodPut, configMaps+"/large")
		}
		first.call(http.StatusOK, http.MethodDelete, configMaps+"/large", nil)
		require.Equal(t, http.StatusInternalServerError, first.open(http.MethodPost, configMaps, configMap("small")).StatusCode)
		_, err := etcd.Compact(t.Context())
		require.NoError(t, err)
		require.NoError(t, etcd.Defragment(t.Context()))
		first.call(http.StatusCreated, http.MethodPost, configMaps, configMap("small"))
	})
}

// limitedTest is a test with a time limit.
type limitedTest struct {
	testing.TB
	limit time.Time
}

func (l limitedTest) Deadline() (time.Time, bool) { return l.limit, !l.limit.IsZero() }

// A start that would exceed the test's time limit fails before it, with the cause.
func TestTheTimeLimitOfATest(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{time.Second: 900 * time.Millisecond, 10 * time.Minute: 10*time.Minute - 10*time.Second} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			ctx, cancel := withinLimit(t.Context(), limitedTest{t, begin.Add(after)})
			defer cancel()
			<-ctx.Done()
			require.Equal(t, want, time.Since(begin))
			require.ErrorContains(t, context.Cause(ctx), "use go test -timeout 30m")
		})
	}
	for _, without := range []testing.TB{limitedTest{TB: t}, struct{ testing.TB }{t}} {
		ctx, cancel := withinLimit(t.Context(), without)
		_, limited := ctx.Deadline()
		require.False(t, limited)
		cancel()
	}
}
