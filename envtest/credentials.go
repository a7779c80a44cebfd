package envtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Credentials authenticate a user with a client certificate.
type Credentials struct {
	Cert, Key         []byte // PEM
	CertFile, KeyFile string // files containing Cert and Key
	Kubeconfig        string // file with all of the above inline
}

// issue creates a key and a certificate signed by the server's CA.
func (s *Server) issue(template *x509.Certificate) (*Credentials, error) {
	if s.CA == nil {
		return nil, errors.New("the server has no CA: is it etcd alone?")
	}
	ca, err := s.authority()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour) // tolerate clock differences
	template.NotAfter = time.Now().Add(365 * 24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Credentials{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}, nil
}

// authority is a server's CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (s *Server) authority() (*authority, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	key, _ := pem.Decode(text)
	cert, _ := pem.Decode(s.CA)
	if key == nil || cert == nil {
		return nil, errors.New("the CA in the server's directory is corrupt")
	}
	a := &authority{}
	if a.key, err = x509.ParseECPrivateKey(key.Bytes); err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(cert.Bytes)
	return a, err
}

// write writes credentials to files in a directory.
func (s *Server) write(c *Credentials, dir, user string) error {
	c.CertFile, c.KeyFile, c.Kubeconfig = filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"), filepath.Join(dir, "kubeconfig")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	in64 := base64.StdEncoding.EncodeToString
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: envtest
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]q
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: %[3]q
  context: {cluster: envtest, user: %[3]q}
current-context: %[3]q
`, s.URL, in64(s.CA), user, in64(c.Cert), in64(c.Key))
	for name, text := range map[string][]byte{c.CertFile: c.Cert, c.KeyFile: c.Key, c.Kubeconfig: []byte(kubeconfig)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
