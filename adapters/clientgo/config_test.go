package clientgo_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientrest "k8s.io/client-go/rest"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// An address that is not a URL may hold a password all the same.
func TestNoErrorQuotesAnAddress(t *testing.T) {
	for _, host := range []string{"https://me:s3cr3t@host:bad", "https://me:s3cr3t%zz@host", "https://host/?token=s3cr3t", "https://me:s3cr3t@host"} {
		_, err := clientgo.FromConfig(&clientrest.Config{Host: host})
		require.ErrorContains(t, err, "the server's address")
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}
