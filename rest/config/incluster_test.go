package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// podAccount sets up the environment of a pod and returns the directory of its service
// account.
func podAccount(t *testing.T) string {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "token"), []byte("t0ken"))
	writeFile(t, filepath.Join(dir, "ca.crt"), newAuthority(t, "cluster").pem)
	writeFile(t, filepath.Join(dir, "namespace"), []byte("kube-system\n"))
	return dir
}

func TestInClusterConfig(t *testing.T) {
	isolate(t)
	_, err := InCluster()
	require.ErrorIs(t, err, ErrNotInCluster)

	dir := podAccount(t)
	c, err := inCluster(dir)
	require.NoError(t, err)
	require.Equal(t, &Config{
		Host: "https://10.0.0.1:443", Namespace: "kube-system",
		BearerTokenFile: filepath.Join(dir, "token"),
		TLS:             TLS{CAFile: filepath.Join(dir, "ca.crt")},
	}, c)
	_, _, err = c.HTTPClient()
	require.NoError(t, err)

	for _, host := range []string{"fd00::1", "[fd00::1]"} {
		t.Setenv("KUBERNETES_SERVICE_HOST", host)
		t.Setenv("POD_NAMESPACE", "mine")
		c, err = inCluster(dir)
		require.NoError(t, err)
		require.Equal(t, "https://[fd00::1]:443", c.Host)
		require.Equal(t, "mine", c.Namespace)
	}

	t.Setenv("POD_NAMESPACE", "")
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.crt")))
	require.NoError(t, os.Remove(filepath.Join(dir, "namespace")))
	c, err = inCluster(dir)
	require.NoError(t, err)
	require.Equal(t, "default", c.Namespace)
	require.Equal(t, TLS{}, c.TLS, "the authorities are those of the system")

	require.NoError(t, os.Remove(filepath.Join(dir, "token")))
	_, err = inCluster(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "automountServiceAccountToken")
}
