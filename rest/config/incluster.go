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

// ErrNotInCluster is the error of [InCluster] outside of a pod.
var ErrNotInCluster = errors.New("not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set)")

// InCluster returns the configuration of a program that runs in a pod: the server named
// by KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and the pod's service account
// token and the cluster's certificate authority, both read again when they rotate.
// Without a file ca.crt, the system's authorities apply. The namespace is
// POD_NAMESPACE, else the service account's, else "default".
//
// Outside of a pod the error is [ErrNotInCluster].
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
