package clientgo_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// An address that is not a URL may hold a password all the same.
func TestNoErrorQuotesAnAddress(t *testing.T) {
	told := &api.ExecConfig{Command: "none", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode, ProvideClusterInfo: true}
	for _, host := range []string{"https://me:s3cr3t@host:bad", "https://me:s3cr3t%zz@host", "https://host/?token=s3cr3t", "https://me:s3cr3t@host"} {
		for name, cfg := range map[string]*clientrest.Config{
			"plain": {Host: host},
			"a plugin is told of the server and proxy": {Host: host, Proxy: http.ProxyFromEnvironment, ExecProvider: told},
		} {
			_, err := clientgo.FromConfig(cfg)
			require.ErrorContains(t, err, "the server's address", name)
			require.NotContains(t, err.Error(), "s3cr3t", name)
			_, err = clientgo.NewSharedInformerFactoryForConfig(cfg, 0)
			require.ErrorContains(t, err, "the server's address", name)
			require.NotContains(t, err.Error(), "s3cr3t", name)
		}
	}
}
