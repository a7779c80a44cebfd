package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Free ports are chosen below the ephemeral port range (from 32768 on Linux, from 49152 elsewhere), so that
// no outgoing connection takes the port while a server is being restarted.
const (
	minPort = 20000
	maxPort = 32000
)

// readyPoll is the delay between two readiness checks.
const readyPoll = 50 * time.Millisecond

// choosePort returns port want. If it is 0, choosePort returns the port of the directory's last run, so
// that a copied kubeconfig keeps working, or a free port if there was none. Once the port is known to work,
// keepPort saves it for the next run.
func (h *home) choosePort(want int) (int, error) {
	if want < 0 || want > 1<<16-1 {
		return 0, fmt.Errorf("port must be 1 to 65535, or 0 for a free port, got %d", want)
	}
	if want != 0 {
		if err := free(want); err != nil {
			return 0, fmt.Errorf("port %d: %w: choose another, or 0 for a free one", want, err)
		}
		return want, nil
	}
	port, err := h.lastPort()
	if err != nil {
		return 0, err
	}
	if port == 0 {
		return freePort()
	}
	if err := free(port); err != nil {
		return 0, fmt.Errorf("port %d, which the server in %s used before: %w: stop the program that is using it, or choose another port", port, h.dir, err)
	}
	return port, nil
}

// free returns an error if a port cannot be used, and nil otherwise.
func free(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

func freePort() (int, error) {
	var last error
	for range 100 {
		port := minPort + rand.IntN(maxPort-minPort)
		if last = free(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d: %w", minPort, maxPort, last)
}

// apiserverArgs returns the command line for a kube-apiserver that uses the given etcd.
func apiserverArgs(h *home, port int, etcd string, extra []string) []string {
	return append([]string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--etcd-servers=" + etcd,
		"--tls-cert-file=" + h.path("server.crt"),
		"--tls-private-key-file=" + h.path("server.key"),
		"--client-ca-file=" + h.caFile(),
		"--token-auth-file=" + h.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + h.path("sa.key"),
		"--service-account-signing-key-file=" + h.path("sa.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		// Nothing creates the service accounts required by this plugin.
		"--disable-admission-plugins=ServiceAccount",
		// Without these two flags the server looks for an externally reachable address of the machine, and
		// fails if there is no network.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		// Otherwise a shutdown waits a minute for open watches before closing them.
		"--shutdown-watch-termination-grace-period=200ms",
		"--feature-gates=" + features(),
	}, extra...)
}

// features returns the alpha features to enable, skipping those that this version lacks.
func features() string {
	var on []string
	for f := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if f == "ShardedListAndWatch" || f == "CBORServingAndStorage" {
			on = append(on, string(f)+"=true")
		}
	}
	return strings.Join(on, ",")
}

// awaitReady returns nil once the server is ready and has created the namespaces that exist in every
// cluster. It returns an error if the server will not become ready.
func awaitReady(ctx context.Context, url string, h *home, served <-chan error) error {
	pem, err := os.ReadFile(h.caFile())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		Timeout:   5 * time.Second,
	}
	defer client.CloseIdleConnections()

	// The namespaces are created in the background; readyz does not wait for them.
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		told, refused := time.Now(), time.Time{}
		for {
			err := answersOK(ctx, client, url+path, h.adminToken)
			if err == nil {
				break
			}
			switch {
			case !refuses(err):
				refused = time.Time{}
			case refused.IsZero():
				refused = time.Now()
			case time.Since(refused) > refusedLimit:
				return fmt.Errorf("no administrator access to kube-apiserver: %w: check your flags for certificates, tokens and authorization", err)
			}
			if time.Since(told) > notReadyTold {
				told = time.Now()
				fmt.Fprintln(os.Stderr, "kube: not ready yet:", err)
			}
			select {
			case err := <-served:
				if err == nil {
					err = errors.New("without an error")
				}
				return fmt.Errorf("kube-apiserver exited before it was ready: %w", err)
			case <-time.After(readyPoll):
			}
		}
	}
	return nil
}

const (
	// refusedLimit is how long a starting server may reject the admin credentials.
	refusedLimit = 10 * time.Second
	// notReadyTold is the interval between log messages about a server that is not ready.
	notReadyTold = 10 * time.Second
)

// refusal is a response other than 200.
type refusal struct {
	url  string
	code int
	text string // the failed /readyz checks
}

func (a *refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("GET %s: %d %s %s", a.url, a.code, http.StatusText(a.code), a.text))
}

// refuses reports whether the server is running but rejects the admin credentials, or we reject the
// server's certificate.
func refuses(err error) bool {
	if a, ok := errors.AsType[*refusal](err); ok {
		return a.code == http.StatusUnauthorized || a.code == http.StatusForbidden
	}
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// answersOK returns an error unless a GET returns 200.
func answersOK(ctx context.Context, client *http.Client, url, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	var missing []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "[-]") { // a failed check
			missing = append(missing, strings.TrimSpace(line))
		}
	}
	return &refusal{url, resp.StatusCode, strings.Join(missing, ", ")}
}
