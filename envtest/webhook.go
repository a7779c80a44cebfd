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

// Webhook is the address at which the program under test serves its webhooks.
type Webhook struct {
	Host    string // 127.0.0.1
	Port    int    // free at the time it was chosen
	CertDir string // contains tls.crt and tls.key, signed by the server's CA for Host and localhost
}

// Address returns "Host:Port". Together with CertDir, it is all that a manager's Options.Webhooks
// needs.
func (w *Webhook) Address() string { return net.JoinHostPort(w.Host, strconv.Itoa(w.Port)) }

// URL returns the URL for a path, such as "/validate".
func (w *Webhook) URL(path string) string {
	return "https://" + w.Address() + "/" + strings.TrimPrefix(path, "/")
}

// Webhook returns the address at which webhooks must be served. It does not change as long as the server's
// directory exists and no other process takes the port. [Server.Install] and [Server.InstallFiles] redirect
// webhooks to it.
//
// If a webhook fails, the API server responds with a 500 that reports which webhook failed and why: the
// connection was refused, the certificate is not the one in CertDir, the server speaks plain HTTP, or the
// webhook exceeded its timeoutSeconds. If the response comes from something other than a webhook, such as
// a proxy, the error quotes it or, if its status is 200, says "couldn't get version/kind". For webhooks
// with failurePolicy Ignore, these errors only appear in the server's Log.
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
		return nil, fmt.Errorf("envtest: set up webhooks: %w", err)
	}
	s.webhook = w
	return w, nil
}

// aboutWebhooks returns details that the server does not know, to append to the message about a
// failed webhook.
func (s *Server) aboutWebhooks(message string) string {
	s.webhooks.Lock()
	defer s.webhooks.Unlock()
	if s.webhook == nil || !strings.Contains(message, "webhook") {
		return ""
	}
	text := "; webhooks that refer to a Service are called at " + s.webhook.URL("/")
	if strings.Contains(message, "couldn't get version/kind") {
		text += ", and the response is not an AdmissionReview or ConversionReview: is another program listening there?"
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

// keptPort returns the port stored in a file if it is free. Otherwise it chooses a new one and stores it in
// the file, since objects installed in the server contain the port.
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

// freePort chooses a port below the range of source ports for outgoing connections, so the port remains
// free until the program listens.
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

// free returns an error unless the port is free.
func free(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// redirect changes an object's webhooks that refer to a Service to use the address of [Server.Webhook].
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
		c["url"], c["caBundle"] = w.URL(path), s.CA // encoding/json encodes bytes as base64, as the API does
	}
	return nil
}

// field returns a nested object, or nil.
func field(in map[string]any, names ...string) map[string]any {
	for _, name := range names {
		in, _ = in[name].(map[string]any)
	}
	return in
}
