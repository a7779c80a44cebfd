package controllerruntime_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/millrace-dev/millrace/adapters/controllerruntime"
)

// An address that is not a URL may contain a password.
func TestNoErrorOfACacheQuotesAnAddress(t *testing.T) {
	for _, host := range []string{"https://me:s3cr3t@host:bad", "https://me:s3cr3t%zz@host", "me:s3cr3t@host:6443/prefix", "https://me:s3cr3t@host"} {
		for name, opts := range map[string]cache.Options{
			"all is given": {HTTPClient: http.DefaultClient, Mapper: meta.NewDefaultRESTMapper(nil)},
			"all is made":  {},
		} {
			_, err := controllerruntime.NewCache(&clientrest.Config{Host: host}, opts)
			require.ErrorContains(t, err, "the server's address", name)
			require.NotContains(t, err.Error(), "s3cr3t", name)
		}
	}
}
