package metrics

import (
	"crypto/x509"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-dev/millrace/failure"
)

// CertificateSource is whose certificate is exported; *serving.Server is one.
type CertificateSource interface {
	// Certificate is the one that clients see now, nil without TLS.
	Certificate() (*x509.Certificate, error)
}

// Certificates exports the certificate of a server. The metric has the label server.
//
//   - millrace_server_certificate_not_after_timestamp_seconds: until when clients take
//     it, in seconds since 1970
type Certificates struct {
	source   CertificateSource
	notAfter *prometheus.Desc
}

// NewCertificates returns a collector to be registered. The name of the server must be
// another for each.
func NewCertificates(server string, source CertificateSource) *Certificates {
	return &Certificates{source, prometheus.NewDesc(
		"millrace_server_certificate_not_after_timestamp_seconds",
		"Until when clients take the certificate of the server, in seconds since 1970.",
		nil, prometheus.Labels{"server": text(server)},
	)}
}

// Describe implements prometheus.Collector.
func (c *Certificates) Describe(out chan<- *prometheus.Desc) { out <- c.notAfter }

// Collect implements prometheus.Collector.
func (c *Certificates) Collect(out chan<- prometheus.Metric) {
	var certificate *x509.Certificate
	err := failure.Apart("a certificate for metrics", func() (err error) {
		certificate, err = c.source.Certificate()
		return err
	})
	switch {
	case err != nil:
		out <- prometheus.NewInvalidMetric(c.notAfter, err)
	case certificate != nil:
		out <- prometheus.MustNewConstMetric(c.notAfter, prometheus.GaugeValue, float64(certificate.NotAfter.Unix()))
	}
}
