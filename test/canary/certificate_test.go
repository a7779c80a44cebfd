package canary

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/rest/config"
)

// identity is a certificate and its key, in PEM and in files. The key becomes a canary.
type identity struct {
	cert, key         []byte
	certFile, keyFile string
}

func newIdentity(t *testing.T, said *ledger) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	i := identity{
		cert:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:      pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"),
	}
	require.NoError(t, os.WriteFile(i.certFile, i.cert, 0o600))
	require.NoError(t, os.WriteFile(i.keyFile, i.key, 0o600))
	said.keep(i.key)
	return i
}

// A client certificate whose key does not match or cannot be read is refused with a message that
// contains nothing of the key.
func TestClientKeysThatDoNotFit(t *testing.T) {
	said := newLedger()
	one, other := newIdentity(t, said), newIdentity(t, said)
	in := base64.StdEncoding.EncodeToString
	broken := filepath.Join(t.TempDir(), "broken.key")
	require.NoError(t, os.WriteFile(broken, []byte(strings.ReplaceAll(string(one.key), "\n", " ")), 0o600))
	for _, user := range []string{
		"client-certificate-data: " + in(one.cert) + ", client-key-data: " + in(other.key),
		"client-certificate-data: " + in(one.key) + ", client-key-data: " + in(one.cert),
		"client-certificate-data: " + in(one.cert) + ", client-key-data: " + in(one.key)[:150],
		"client-certificate-data: " + in(one.cert) + ", client-key-data: " + in(one.key[:100]),
		"client-certificate-data: " + in(one.cert) + ", client-key-data: '" + strings.ReplaceAll(string(one.key), "\n", " ") + "'",
		"client-certificate-data: " + in(one.cert) + ", client-key: '" + strings.ReplaceAll(string(one.key), "\n", " ") + "'",
		"client-certificate: " + one.certFile + ", client-key: " + other.keyFile,
		"client-certificate: " + one.keyFile + ", client-key: " + one.certFile,
		"client-certificate: " + one.certFile + ", client-key: " + broken,
		"client-certificate: " + one.certFile + ", client-key: " + one.keyFile + ", client-key-data: " + in(other.key),
		"client-certificate-data: " + in(one.cert) + ", client-key: " + in(one.key),
		"client-certificate: '" + string(one.key[:100]) + "', client-key: " + one.keyFile,
		"tokenFile: " + in(one.key),
		"client-key-data: " + in(one.key),
	} {
		text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {%s}}]\n", user)
		cfg, err := config.ParseWith([]byte(text), config.LoadOptions{Logger: said.logger()})
		if err == nil {
			said.value("configuration", cfg)
			_, _, err = cfg.HTTPClient()
		}
		require.Error(t, err, user)
		said.err("error", err)
	}
	said.requireSilence(t, "error", "configuration")
}

// The ledger finds a key in every spelling.
func TestALeakOfAKeyIsFound(t *testing.T) {
	for name, write := range map[string]func([]byte) string{
		"as it is":  func(key []byte) string { return string(key) },
		"in base64": func(key []byte) string { return base64.StdEncoding.EncodeToString(key) },
		"quoted":    func(key []byte) string { return fmt.Sprintf("%q", key) },
		"cut off":   func(key []byte) string { return string(key[:70]) },
	} {
		said := newLedger()
		said.say("log", write(newIdentity(t, said).key))
		require.NotEmpty(t, said.leaks(), name)
	}
}
