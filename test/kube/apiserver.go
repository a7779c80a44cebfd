package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Free ports are chosen below the range from which systems take the source
// ports of outgoing connections (from 32768 on Linux, from 49152 elsewhere), so
// that nobody takes the port while a server is being restarted.
const (
	minPort = 20000
	maxPort = 32000
)

// readyPoll is the pause between two looks whether the server is ready.
const readyPoll = 50 * time.Millisecond

// choosePort returns the wanted port. For 0 it returns that of the directory's last
// run, so that a kubeconfig that somebody has copied goes on to work, or a free one.
func (h *home) choosePort(want int) (int, error) {
	if want != 0 {
		return want, h.keepPort(want)
	}
	port, err := h.lastPort()
	if err != nil {
		return 0, err
	}
	if port != 0 {
		return port, nil
	}
	if port, err = freePort(); err != nil {
		return 0, err
	}
	return port, h.keepPort(port)
}

func freePort() (int, error) {
	var last error
	for range 100 {
		port := minPort + rand.IntN(maxPort-minPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d: %w", minPort, maxPort, last)
}

// apiserverArgs is the command line of kube-apiserver on the etcd at a URL.
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
		// Nobody makes the service accounts that it would ask for.
		"--disable-admission-plugins=ServiceAccount",
		// Without these two it looks for an address of the machine that others
		// can reach, and fails on a machine without network.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		// Without it a shutdown waits a minute for open watches, and cuts them.
		"--shutdown-watch-termination-grace-period=200ms",
		"--feature-gates=" + features(),
	}, extra...)
}

// features are the alpha features that are on, of those that this version has.
func features() string {
	var on []string
	for f := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if f == "ShardedListAndWatch" || f == "CBORServingAndStorage" {
			on = append(on, string(f)+"=true")
		}
	}
	return strings.Join(on, ",")
}

// awaitReady returns when the server says that it is ready and has made the
// namespaces that every cluster has, or with the reason why it will not be.
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

	// The namespaces are made in the background; readyz does not wait for them.
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		for !answersOK(ctx, client, url+path, h.adminToken) {
			select {
			case err := <-served:
				return errors.Join(errors.New("kube-apiserver ended before it was ready"), err)
			case <-time.After(readyPoll):
			}
		}
	}
	return nil
}

// answersOK reports whether a GET is answered with 200. A failure to connect is
// no error here: the server is still starting.
func answersOK(ctx context.Context, client *http.Client, url, token string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
