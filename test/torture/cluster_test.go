package torture

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// quota is the size at which etcd is full, in bytes.
const quota = 96 << 20

// cluster is one etcd with two API servers, each in its own process, and the links between them and
// to their clients:
//
//	clients ─ front ─┬──────────┬─ server a ─ store a ─┐
//	                 └ gateway ─┤                      ├─ etcd
//	clients ─ certs ────────────┴─ server b ─ store b ─┘
type cluster struct {
	t       *testing.T
	etcd    *envtest.Server
	disk    disk // of etcd
	servers [2]*envtest.Server
	dirs    [2]string // of the servers, with their keys
	store   [2]*link  // between each server and etcd
	front   *link     // for clients with a token
	certs   *link     // for clients with a certificate
	gateway *gateway  // terminates TLS and HTTP

	files   string // files of the clients: ca.crt, client.crt, client.key, token
	direct  [2]*rest.Client
	admin   string // token
	account *rest.Resource[*corev1.ServiceAccount]
}

// newCluster starts everything.
func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, files: t.TempDir()}
	dir := t.TempDir()
	c.disk = mountDisk(t, filepath.Join(dir, "etcd"))
	c.etcd = envtest.Start(t, envtest.Options{Dir: dir, OnlyEtcd: true, Quota: quota})
	at, err := url.Parse(c.etcd.URL)
	require.NoError(t, err)
	var hosts [2]string
	for n := range c.servers {
		c.dirs[n] = t.TempDir()
		c.store[n] = newLink(t, fmt.Sprintf("store %d", n), to(at.Host))
		if n > 0 {
			copyFiles(t, c.dirs[0], c.dirs[n], "*.crt", "*.key", "tokens.csv")
		}
		c.servers[n] = envtest.Start(t, envtest.Options{Dir: c.dirs[n], Etcd: "http://" + c.store[n].address})
		u, err := url.Parse(c.servers[n].URL)
		require.NoError(t, err)
		hosts[n] = u.Host
	}
	c.admin = c.servers[0].AdminToken
	copyFiles(t, c.dirs[0], c.files, "ca.crt")
	c.issueClient(c.authority())
	for n := range c.direct {
		cfg := &config.Config{Host: "https://" + hosts[n], BearerToken: c.admin, TLS: config.TLS{Insecure: true}, Timeout: 10 * time.Second}
		c.direct[n], err = rest.NewClient(cfg, newScheme())
		require.NoError(t, err)
		t.Cleanup(c.direct[n].CloseIdleConnections)
	}
	c.front = newLink(t, "front", anyOf(hosts[:]...))
	c.certs = newLink(t, "certs", anyOf(hosts[:]...))
	c.gateway = newGateway(t, c, hosts[:])
	c.account = rest.ResourceFor[*corev1.ServiceAccount](c.direct[0]).Namespace("default")
	c.enlist(t.Context())
	c.allow(t.Context())
	return c
}

// hosts returns the addresses of the servers.
func (c *cluster) hosts() (hosts []string) {
	for _, s := range c.servers {
		hosts = append(hosts, s.URL[len("https://"):])
	}
	return hosts
}

func copyFiles(t *testing.T, from, to string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			replaceFile(t, filepath.Join(to, filepath.Base(name)), text)
		}
	}
}

// replaceFile replaces a file atomically.
func replaceFile(t *testing.T, name string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(name+".new", text, 0o600))
	require.NoError(t, os.Rename(name+".new", name))
}

// byToken returns the config of clients that use the front link, with the token of a service
// account that has the rights granted by allow.
func (c *cluster) byToken() *config.Config {
	return &config.Config{
		Host: "https://" + c.front.address, TLS: config.TLS{CAFile: filepath.Join(c.files, "ca.crt")},
		BearerTokenFile: filepath.Join(c.files, "token"), Timeout: 20 * time.Second,
	}
}

// byCertificate returns the config of clients that use the link certs, with all rights.
func (c *cluster) byCertificate() *config.Config {
	return &config.Config{Host: "https://" + c.certs.address, Timeout: 20 * time.Second, TLS: config.TLS{
		CAFile: filepath.Join(c.files, "ca.crt"), CertFile: filepath.Join(c.files, "client.crt"), KeyFile: filepath.Join(c.files, "client.key"),
	}}
}

const runner = "runner"

// enlist creates the service account and a token for it.
func (c *cluster) enlist(ctx context.Context) {
	_, err := c.account.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: runner}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	request := &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Name: runner}, Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(86400))}}
	made, err := rest.SubresourceFor[*authenticationv1.TokenRequest](c.account, "token").Create(ctx, request, metav1.CreateOptions{})
	require.NoError(c.t, err)
	replaceFile(c.t, filepath.Join(c.files, "token"), []byte(made.Status.Token))
}

// discharge deletes the service account, which invalidates the token.
func (c *cluster) discharge(ctx context.Context) {
	require.NoError(c.t, c.account.Delete(ctx, object.Key{Name: runner}, metav1.DeleteOptions{}))
}

// allow grants the service account all rights.
func (c *cluster) allow(ctx context.Context) {
	_, err := rest.ResourceFor[*rbacv1.ClusterRoleBinding](c.direct[0]).Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "torture"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: runner}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// forbid revokes them.
func (c *cluster) forbid(ctx context.Context) {
	require.NoError(c.t, rest.ResourceFor[*rbacv1.ClusterRoleBinding](c.direct[0]).Delete(ctx, object.Key{Name: "torture"}, metav1.DeleteOptions{}))
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// authority returns the current authority of the servers.
func (c *cluster) authority() authority {
	text, err := os.ReadFile(filepath.Join(c.dirs[0], "ca.crt"))
	require.NoError(c.t, err)
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(c.t, err)
	keyText, err := os.ReadFile(filepath.Join(c.dirs[0], "ca.key"))
	require.NoError(c.t, err)
	keyBlock, _ := pem.Decode(keyText)
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	require.NoError(c.t, err)
	return authority{cert, key, text}
}

// newAuthority creates another authority.
func newAuthority(t *testing.T) authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "another CA"}, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), SerialNumber: big.NewInt(time.Now().UnixNano()),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue creates a certificate and its key in PEM.
func (a authority) issue(t *testing.T, template *x509.Certificate) (certPEM, keyPEM []byte) {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(crand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// serving creates the certificate of a server, valid around now plus a shift.
func (a authority) serving(t *testing.T, shift time.Duration) (certPEM, keyPEM []byte) {
	return a.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(shift - time.Hour), NotAfter: time.Now().Add(shift + 24*time.Hour),
	})
}

func (c *cluster) pair(a authority, shift time.Duration) *tls.Certificate {
	certPEM, keyPEM := a.serving(c.t, shift)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(c.t, err)
	return &pair
}

// issueClient writes a new client certificate.
func (c *cluster) issueClient(a authority) {
	certPEM, keyPEM := a.issue(c.t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "bearer", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	})
	replaceFile(c.t, filepath.Join(c.files, "client.key"), keyPEM)
	replaceFile(c.t, filepath.Join(c.files, "client.crt"), certPEM)
}

// rotate gives the servers another authority and new certificates. They reload the files
// themselves. The clients' files stay unchanged.
func (c *cluster) rotate() authority {
	a := newAuthority(c.t)
	certPEM, keyPEM := a.serving(c.t, 0)
	keyDER, err := x509.MarshalECPrivateKey(a.key)
	require.NoError(c.t, err)
	for _, dir := range c.dirs {
		replaceFile(c.t, filepath.Join(dir, "ca.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
		replaceFile(c.t, filepath.Join(dir, "ca.crt"), a.pem)
		replaceFile(c.t, filepath.Join(dir, "server.key"), keyPEM)
		replaceFile(c.t, filepath.Join(dir, "server.crt"), certPEM)
	}
	return a
}

// both applies do to both servers concurrently.
func (c *cluster) both(do func(s *envtest.Server) error) error {
	var errs [2]error
	var all sync.WaitGroup
	for n, s := range c.servers {
		all.Go(func() { errs[n] = do(s) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitCertificate waits until both servers present a certificate of an authority.
func (c *cluster) awaitCertificate(a authority) {
	c.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.pem)
	for _, host := range c.hosts() {
		require.Empty(c.t, until(patience, func() string {
			conn, err := tls.Dial("tcp", host, &tls.Config{RootCAs: roots})
			if err != nil {
				return err.Error()
			}
			_ = conn.Close() // nothing was sent on it
			return ""
		}))
	}
}
