package envtest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestParts runs one etcd and two API servers of it in processes of their own.
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
	require.ErrorContains(t, err, "leave Files, Objects, Audit and Like out")
	first, second := newCaller(t, one, one.AdminToken), newCaller(t, two, one.AdminToken)

	made := first.call(http.StatusCreated, http.MethodPost, configMaps, configMap("shared"))
	got := second.call(http.StatusOK, http.MethodGet, configMaps+"/shared", nil)
	require.Equal(t, made.Metadata, got.Metadata)
	_, err = one.Compact(t.Context())
	require.ErrorContains(t, err, "etcd is another process")
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
		require.ErrorContains(t, etcd.Suspend(), "does not run")
		require.NoError(t, etcd.Restart(t.Context()))
		first.call(http.StatusOK, http.MethodGet, configMaps+"/shared", nil)
	})
	t.Run("a full etcd writes again when it is defragmented", func(t *testing.T) {
		large := func(n int, method, path string) int {
			body := configMap("large")
			body["data"] = map[string]any{strconv.Itoa(n): strings.Repeat("x", 1<<20-4096)} // or nothing is written
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
