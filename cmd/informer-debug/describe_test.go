package main

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
)

func TestDescribeOnACluster(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	r := invoke(t, "describe", "po/web-1", "-n", "shop", server)
	require.Equal(t, exitOK, r.code, r.errOut)
	require.Equal(t, "The cache has po/web-1 as the server has it, with version 101.", r.lines()[0])
	require.Len(t, r.lines(), 3, r.out)

	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"a": []byte("hidden")}})
	require.NoError(t, err)
	r = invoke(t, "describe", "secrets/key", "-n", "shop", server)
	require.Contains(t, r.out, "Fields are not compared: contents of Secrets are not shown.")
	require.NotContains(t, r.out, "aGlkZGVu")
	for want, args := range map[string][]string{
		"po/none is neither in the cache nor on the server":       {"po/none", "-n", "shop"},
		`"pods": want TYPE/NAME`:                                  {"pods"},
		"an object by its name is in one namespace: leave out -A": {"pods/web-1", "-A"},
	} {
		r := invoke(t, append([]string{"describe", server}, args...)...)
		require.NotEqual(t, exitOK, r.code)
		require.Contains(t, r.errOut, want)
	}
}

func TestDescribeComparesAProcessWithTheServer(t *testing.T) {
	srv, server := cluster(t, apiserver.Options{})
	i, from, process := listener(t, srv, sharedinformer.Options{})
	at := httptest.NewServer(process)
	defer at.Close()
	web, describe := object.Key{Namespace: "shop", Name: "web-1"}, []string{"describe", "pods in namespace shop/web-1", "--attach=" + at.URL, server}

	r := invoke(t, describe...)
	require.Equal(t, exitOK, r.code, r.errOut)
	require.Contains(t, r.lines()[0], "as the server has it, with version 101.")
	require.NotContains(t, r.out, "From the cache to the server", "a Go type and the server write the same object")

	from.ignore(web)
	put(t, srv, web, corev1.PodFailed)
	r = invoke(t, describe...)
	require.Contains(t, r.lines()[0], "The cache has version 101 of pods in namespace shop/web-1, and the server version 104: the cache is complete up to version 103, and the change is on its way.")
	require.Contains(t, r.out, "From the cache to the server:\n  status.phase: Running→Failed\n")

	put(t, srv, object.Key{Namespace: "shop", Name: "cart-2"}, corev1.PodRunning)
	require.NoError(t, i.WaitForRV(t.Context(), srv.RV()))
	r = invoke(t, describe...)
	require.Contains(t, r.lines()[0], "and should have it: see informer-debug check")

	require.NoError(t, srv.Delete(pods(), web))
	r = invoke(t, describe...)
	require.Contains(t, r.lines()[0], "is in the cache, complete up to version 105, and not on the server.")
	put(t, srv, web, corev1.PodRunning)
	r = invoke(t, describe...)
	require.Contains(t, r.lines()[0], "was deleted and made again, and the cache has the one before")
	r = invoke(t, "describe", "pods in namespace shop/cart-2", "--attach="+at.URL, server)
	require.Regexp(t, `\n\n.*informer pods in namespace shop +applied`, r.out)
}

func TestDescribeSaysWhatControllersDo(t *testing.T) {
	process := httptest.NewServer(program(t, true))
	defer process.Close()
	_, server := cluster(t, apiserver.Options{})
	r := invoke(t, "describe", "pods/bad", "-n", "shop", "--attach="+process.URL, server)
	require.Equal(t, exitOK, r.code, r.errOut)
	require.Contains(t, r.lines()[0], "pods/bad is in the cache, complete up to version ")
	require.Contains(t, r.out, "The controller keeper failed on shop/bad")
	require.NotContains(t, r.out, "\x1b")
	r = invoke(t, "describe", "pods/bad", "--attach="+process.URL, server)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errOut, "pods/bad is in a namespace: say which with -n")
}
