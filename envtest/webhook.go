package envtest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Webhook is where the program under test serves its webhooks.
type Webhook struct {
	Host    string // 127.0.0.1
	Port    int    // was free when it was chosen
	CertDir string // has tls.crt and tls.key, signed by the server's CA for Host and localhost
}

// Address returns Host and Port, as the options of a server take them: with CertDir, all that
// Options.Webhooks of a manager needs.
func (w *Webhook) Address() string { return net.JoinHostPort(w.Host, strconv.Itoa(w.Port)) }

// URL is the address of a path, such as "/validate".
func (w *Webhook) URL(path string) string {
	return "https://" + w.Address() + "/" + strings.TrimPrefix(path, "/")
}

// Webhook returns where to serve webhooks, always the same, as long as the directory of the
// server is and nobody else has taken the port. What Install and InstallFiles are given is
// called there.
//
// Where a webhook does not work the API server answers 500, and says which one and why:
// nobody listens, the certificate is another than that in CertDir, HTTP is spoken in the clear, or
// nothing came in the webhook's timeoutSeconds. Something else that answers, such as the page of
// a proxy, is quoted, or "couldn't get version/kind" where its code is 200. Of a webhook with the
// failurePolicy Ignore all this is in the server's Log alone.
func (s *Server) Webhook() (*Webhook, error) {
	s.webhooks.Lock()
	defer s.webhooks.Unlock()
	if s.webhook != nil {
		return s.webhook, nil
	}
	err := s.there()
	var w *Webhook
	if err == nil {
		w, err = s.newWebhook()
	}
	if err != nil {
		return nil, fmt.Errorf("envtest: make a place for webhooks: %w", err)
	}
	s.webhook = w
	return w, nil
}

// aboutWebhooks is what the server cannot know, or does not say, when a webhook has failed.
func (s *Server) aboutWebhooks(message string) string {
	s.webhooks.Lock()
	defer s.webhooks.Unlock()
	if s.webhook == nil || !strings.Contains(message, "webhook") {
		return ""
	}
	text := "; webhooks at a Service are called at " + s.webhook.URL("/")
	if strings.Contains(message, "couldn't get version/kind") {
		text += ", and what answered is no review: does something else listen there?"
	}
	return text
}

func (s *Server) newWebhook() (*Webhook, error) {
	w := &Webhook{Host: "127.0.0.1", CertDir: filepath.Join(s.dir, "webhook")}
	pair, err := s.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "webhook"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost"},
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.CertDir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(w.CertDir, "tls.crt"), pair.Cert, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(w.CertDir, "tls.key"), pair.Key, 0o600); err != nil {
		return nil, err
	}
	w.Port, err = keptPort(filepath.Join(w.CertDir, "port"))
	return w, err
}

// keptPort returns the port in a file if there is one and it is free, and else another one,
// which the file then has: what is installed in a server names it.
func keptPort(name string) (int, error) {
	text, err := os.ReadFile(name)
	if err == nil {
		port, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && free(port) == nil {
			return port, nil
		}
	}
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	return port, os.WriteFile(name, fmt.Appendln(nil, port), 0o600)
}

// freePort chooses below the range from which systems take the source ports of
// outgoing connections, so that nobody takes the port before the program listens.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		if last = free(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between 20000 and 32000: %w", last)
}

// free returns why nobody can listen at a port, nil if one can.
func free(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// redirect has the webhooks of an object that are at a Service called where Webhook
// says.
func (s *Server) redirect(o object) error {
	var clients []map[string]any
	switch o.text("kind") {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _ := o["webhooks"].([]any)
		for _, h := range hooks {
			hook, _ := h.(map[string]any)
			clients = append(clients, field(hook, "clientConfig"))
		}
	case "CustomResourceDefinition":
		clients = append(clients, field(o, "spec", "conversion", "webhook", "clientConfig"))
	}
	for _, c := range clients {
		service := field(c, "service")
		if service == nil {
			continue
		}
		w, err := s.Webhook()
		if err != nil {
			return err
		}
		path, _ := service["path"].(string)
		delete(c, "service")
		c["url"], c["caBundle"] = w.URL(path), s.CA // JSON has bytes in base64, as the API does
	}
	return nil
}

// field returns an object in an object, or nil.
func field(in map[string]any, names ...string) map[string]any {
	for _, name := range names {
		in, _ = in[name].(map[string]any)
	}
	return in
}
