package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-dev/millrace/internal/reading"
)

// pemSet contains the PEM data for the TLS settings at a point in time, whether inline or read from files.
type pemSet struct {
	ca, cert, key []byte
}

// files lists the set's files.
func (t *TLS) files() []reading.File {
	return slices.DeleteFunc([]reading.File{
		{What: "certificate authority", Path: t.CAFile},
		{What: "client certificate", Path: t.CertFile},
		{What: "client key", Path: t.KeyFile},
	}, func(f reading.File) bool { return f.Path == "" })
}

// pems builds the set from its files' contents.
func (t *TLS) pems(contents [][]byte) pemSet {
	set := pemSet{ca: t.CAData, cert: t.CertData, key: t.KeyData}
	for _, f := range []struct {
		path string
		into *[]byte
	}{{t.CAFile, &set.ca}, {t.CertFile, &set.cert}, {t.KeyFile, &set.key}} {
		if f.path != "" {
			*f.into, contents = contents[0], contents[1:]
		}
	}
	return set
}

func (s pemSet) equal(o pemSet) bool {
	return bytes.Equal(s.ca, o.ca) && bytes.Equal(s.cert, o.cert) && bytes.Equal(s.key, o.key)
}

// tlsConfig builds the settings for new connections. The set's certificate takes precedence
// over fromExec.
func (t *TLS) tlsConfig(s pemSet, fromExec *tls.Certificate) (*tls.Config, error) {
	out := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.Insecure,
	}
	if len(s.ca) > 0 || t.CAFile != "" {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(s.ca) {
			return nil, fmt.Errorf("certificate authority: no certificate in %s: PEM text starting with -----BEGIN CERTIFICATE----- is required", t.place(t.CAFile))
		}
	}
	switch {
	case len(s.cert) > 0 || t.CertFile != "":
		pair, err := tls.X509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("client certificate in %s with key in %s: %w", t.place(t.CertFile), t.place(t.KeyFile), err)
		}
		out.Certificates = []tls.Certificate{pair}
	case fromExec != nil:
		out.Certificates = []tls.Certificate{*fromExec}
	}
	if len(out.Certificates) > 0 {
		// With only Certificates set, crypto/tls does not present the certificate if its issuer is missing
		// from the server's list of acceptable CAs. A server whose list is incomplete would accept it.
		pair := out.Certificates[0]
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return out, nil
}

// proxyTLS returns the settings for a proxy. Since it is a different server, it is verified by its own name,
// receives no client certificate, and may also have a certificate signed by one of the system's CAs.
func (s pemSet) proxyTLS(server *tls.Config, name string) *tls.Config {
	out := &tls.Config{MinVersion: server.MinVersion, ServerName: name, InsecureSkipVerify: server.InsecureSkipVerify}
	if server.RootCAs != nil {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		roots.AppendCertsFromPEM(s.ca)
		out.RootCAs = roots
	}
	return out
}

// place describes where PEM data comes from, for messages.
func (t *TLS) place(file string) string {
	if file == "" {
		return "the inline data"
	}
	return file
}

// sameCertificate reports whether a and b present the same certificate chain to a server.
func sameCertificate(a, b tls.Certificate) bool {
	return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
}

// badServerCertificate reports whether the server's certificate was rejected.
func badServerCertificate(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}
