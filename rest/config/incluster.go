package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// serviceAccountDir is where the kubelet mounts a pod's service account.
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// ErrNotInCluster is returned by [InCluster] outside a pod.
var ErrNotInCluster = errors.New("not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set)")

// InCluster returns the configuration for a program running in a pod: the server from KUBERNETES_SERVICE_HOST
// and KUBERNETES_SERVICE_PORT, the pod's service account token and the cluster's certificate authority. The
// token and the CA are reread when they are rotated. If there is no ca.crt file, the system's CAs are used.
// The namespace is taken from POD_NAMESPACE or else from the service account, and defaults to "default".
//
// Outside a pod, InCluster returns [ErrNotInCluster].
func InCluster() (*Config, error) {
	return inCluster(serviceAccountDir)
}

func inCluster(dir string) (*Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, ErrNotInCluster
	}
	c := &Config{
		Host:            "https://" + net.JoinHostPort(strings.Trim(host, "[]"), port),
		BearerTokenFile: filepath.Join(dir, "token"),
		TLS:             TLS{CAFile: filepath.Join(dir, "ca.crt")},
	}
	if _, err := os.Stat(c.BearerTokenFile); err != nil {
		return nil, fmt.Errorf("in-cluster configuration: %w: give the pod a service account whose token is mounted (automountServiceAccountToken)", err)
	}
	if _, err := os.Stat(c.TLS.CAFile); errors.Is(err, fs.ErrNotExist) {
		c.TLS.CAFile = ""
	}
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		text, err := ReadFile(filepath.Join(dir, "namespace"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("in-cluster configuration: %w: set POD_NAMESPACE", err)
		}
		namespace = strings.TrimSpace(string(text))
	}
	c.Namespace = cmp.Or(namespace, defaultNamespace)
	return c, nil
}
