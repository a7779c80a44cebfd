package serving_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/serving"
)

// Servers use the configured versions and suites, with and without client certificates.
func TestVersionsAndSuites(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "me")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	const suite, other = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
	for name, c := range map[string]struct {
		serving.TLS
		client *tls.Config
		refuse bool
		proto  int
		suite  uint16
	}{
		"by default":           {proto: 2},
		"TLS 1.1":              {client: &tls.Config{MaxVersion: tls.VersionTLS11}, refuse: true},
		"TLS 1.2":              {client: &tls.Config{MaxVersion: tls.VersionTLS12}, proto: 2},
		"TLS 1.2 where 1.3 is": {TLS: serving.TLS{MinVersion: tls.VersionTLS13}, client: &tls.Config{MaxVersion: tls.VersionTLS12}, refuse: true},
		"without HTTP/2":       {TLS: serving.TLS{DisableHTTP2: true}, proto: 1},
		"one suite":            {TLS: serving.TLS{DisableHTTP2: true, CipherSuites: []uint16{suite}}, client: &tls.Config{MaxVersion: tls.VersionTLS12}, proto: 1, suite: suite},
		"another suite":        {TLS: serving.TLS{DisableHTTP2: true, CipherSuites: []uint16{suite}}, client: &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{other}}, refuse: true},
	} {
		for _, authority := range []string{"", filepath.Join(dir, "tls.crt")} {
			c.CertFile, c.KeyFile, c.ClientCAFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), authority
			s, err := serving.New(serving.Options{Name: "x", Address: "127.0.0.1:0", Handler: hello, TLS: &c.TLS})
			require.NoError(t, err, name)
			require.NoError(t, s.Listen())
			at := s.Addr().String()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			client := new(tls.Config)
			if c.client != nil {
				client = c.client.Clone()
			}
			client.InsecureSkipVerify, client.Certificates, client.MinVersion = true, []tls.Certificate{pair}, tls.VersionTLS10
			transport := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}
			resp, err := (&http.Client{Transport: transport}).Get("https://" + at)
			if c.refuse {
				require.Error(t, err, name)
			} else {
				require.NoError(t, err, name)
				resp.Body.Close()
				require.Equal(t, c.proto, resp.ProtoMajor, name)
				if c.suite != 0 {
					require.Equal(t, c.suite, resp.TLS.CipherSuite, name)
				}
			}
			transport.CloseIdleConnections()
			cancel()
			require.NoError(t, <-ended)
		}
	}
}

func TestBadVersionsAndSuites(t *testing.T) {
	for want, c := range map[string]serving.TLS{
		"MinVersion is 0x0305, which is unknown":      {MinVersion: 0x0305},
		"TLS_RSA_WITH_RC4_128_SHA is unknown or inse": {CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}},
		"lacks a cipher suite required by HTTP/2":     {CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}},
	} {
		_, err := serving.New(serving.Options{Name: "x", Address: ":0", Handler: hello, TLS: &c})
		require.ErrorContains(t, err, want)
	}
}
