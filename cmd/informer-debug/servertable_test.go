package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// printing returns the address of a proxy that prints pods as tables, one per page, and has no row
// for web-1 in a later state.
func printing(t *testing.T, server string, answer func(name string) metav1.TableRow) string {
	t.Helper()
	behind, err := url.Parse(strings.TrimPrefix(server, "--server="))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "as=Table") {
			proxy.ServeHTTP(w, r)
			return
		}
		table := metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Format: "name"}, {Name: "Ready"}, {Name: "Restarts"}, {Name: "Node", Priority: 1},
		}}
		name := "cart-1"
		if r.URL.Query().Get("continue") != "" {
			name, table.ColumnDefinitions = "web-1", nil
		} else {
			table.Continue = "more"
		}
		if r.URL.Path != "/api/v1/namespaces/shop/pods" && r.URL.Path != "/api/v1/pods" {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		table.Rows = []metav1.TableRow{answer(name)}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(table)
	}))
	t.Cleanup(front.Close)
	return "--server=" + front.URL
}

func TestGetPrintsTheServersTable(t *testing.T) {
	_, behind := debugtest.Cluster(t, apiservertest.Options{})
	rv := map[string]string{"cart-1": "102", "web-1": "101"}
	row := func(name string) metav1.TableRow {
		row := metav1.TableRow{Cells: []any{name, "1/1\x1b[2J", 3, "n1"}}
		row.Object.Raw = []byte(`{"metadata":{"namespace":"shop","name":"` + name + `","resourceVersion":"` + rv[name] + `"}}`)
		return row
	}
	server := printing(t, behind, row)
	r := invoke(t, "get", "pods", "-n", "shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, "NAME     READY     RESTARTS\ncart-1   1/1 [2J   3\nweb-1    1/1 [2J   3\n", r.Out)
	require.NotContains(t, r.ErrOut, "changed since")
	r = invoke(t, "get", "pods", "-n", "shop", "-o", "wide", "-L", "app", "--sort-by=.metadata.resourceVersion", server)
	require.Equal(t, "NAME     READY     RESTARTS   NODE   APP\nweb-1    1/1 [2J   3          n1     web\ncart-1   1/1 [2J   3          n1     cart\n", r.Out)

	rv["web-1"] = "7"
	r = invoke(t, "get", "pods", "-A", server)
	require.Equal(t, "NAMESPACE   NAME     READY     RESTARTS\nbank        api-1    -         -\nshop        cart-1   1/1 [2J   3\nshop        web-1    1/1 [2J   3\n", r.Out)
	require.Contains(t, r.ErrOut, "2 of 3 objects have changed since")

	r = invoke(t, "get", "pods", "-n", "shop", "--server-print=false", server)
	require.Regexp(t, `^NAMESPACE +NAME +RV +GENERATION +OWNER\nshop +cart-1 +102 `, r.Out)
}

// If a server has no tables, or returns nonsense, the values of the cache are shown.
func TestServerWithoutTables(t *testing.T) {
	_, none := debugtest.Cluster(t, apiservertest.Options{})
	for _, server := range []string{none, printing(t, none, func(string) metav1.TableRow { return metav1.TableRow{} })} {
		r := invoke(t, "get", "pods", "-n", "shop", server)
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		require.Regexp(t, `^NAMESPACE +NAME +RV +GENERATION +OWNER\nshop +cart-1 +102 `, r.Out)
		require.Equal(t, server != none, strings.Contains(r.ErrOut, "the server provides no table for pods in namespace shop; showing the common columns: "), "a server that makes none is no news")
	}
}
