package metrics_test

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/webhook"
)

var (
	_ metrics.CertificateSource = (*serving.Server)(nil)
	_ metrics.CertificateSource = (*webhook.Server)(nil)
)

type certificate func() (*x509.Certificate, error)

func (c certificate) Certificate() (*x509.Certificate, error) { return c() }

func TestCertificatesShowTheirExpiry(t *testing.T) {
	r := prometheus.NewRegistry()
	for name, c := range map[string]certificate{
		"hooks": func() (*x509.Certificate, error) { return &x509.Certificate{NotAfter: time.Unix(86400, 0)}, nil },
		"plain": func() (*x509.Certificate, error) { return nil, nil },
		"panic": func() (*x509.Certificate, error) { panic("no certificate") },
		"error": func() (*x509.Certificate, error) { return nil, errors.New("no certificate") },
	} {
		require.NoError(t, r.Register(metrics.NewCertificates(name, c)))
	}
	found, err := r.Gather()
	require.ErrorContains(t, err, "2 error(s)")
	require.Len(t, found, 1)
	require.Len(t, found[0].Metric, 1)
	require.InDelta(t, 86400, found[0].Metric[0].GetGauge().GetValue(), 0)
	require.Equal(t, "hooks", found[0].Metric[0].Label[0].GetValue())

	problems, err := testutil.CollectAndLint(metrics.NewCertificates("hooks", certificate(func() (*x509.Certificate, error) {
		return &x509.Certificate{}, nil
	})))
	require.NoError(t, err)
	require.Empty(t, problems)
}
