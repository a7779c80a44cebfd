package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ExecInteractiveMode determines whether an exec plugin may use standard input.
type ExecInteractiveMode string

const (
	// ExecNever runs the plugin without standard input.
	ExecNever ExecInteractiveMode = "Never"
	// ExecIfAvailable passes standard input to the plugin if it is a terminal.
	ExecIfAvailable ExecInteractiveMode = "IfAvailable"
	// ExecAlways passes standard input to the plugin, and fails if it is not a terminal.
	ExecAlways ExecInteractiveMode = "Always"
)

// Exec is a program that prints a credential: an ExecCredential object of client.authentication.k8s.io,
// v1 or v1beta1. The credential is used until its expirationTimestamp, and replaced if the server responds
// with 401. Connections that presented a replaced client certificate are closed as described at [TLS].
// Concurrent requests share one run and its outcome. If a request gives up, the run continues so that the
// next request can use its outcome. A run may take up to five minutes, or fifteen if the plugin has a
// terminal.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
type Exec struct {
	// Command is a path, or a name to look up in PATH.
	Command string
	Args    []string
	// Env is added to this process's environment, as NAME=value.
	Env []string

	// APIVersion is the protocol version. The plugin's output must have the same version.
	APIVersion string

	// InstallHint is added to the error if the program cannot be started.
	InstallHint string

	// ProvideClusterInfo passes information about the cluster to the plugin in KUBERNETES_EXEC_INFO.
	ProvideClusterInfo bool
	// ClusterConfig is configuration for the plugin from the kubeconfig's cluster entry, in JSON: the
	// extension named client.authentication.k8s.io/exec.
	ClusterConfig json.RawMessage

	// InteractiveMode is required with v1. With v1beta1 the default is ExecIfAvailable.
	InteractiveMode ExecInteractiveMode
}

func (e *Exec) validate() error {
	if e.Command == "" {
		return errors.New("the exec plugin has no command: set the program to run")
	}
	switch e.APIVersion {
	case execV1, execV1beta1:
	case "":
		return fmt.Errorf("exec plugin %q has no apiVersion: use %s", e.Command, execV1)
	default:
		return fmt.Errorf("exec plugin %q has apiVersion %q, which is not supported: use a plugin for %s or %s", e.Command, e.APIVersion, execV1, execV1beta1)
	}
	switch e.InteractiveMode {
	case ExecNever, ExecIfAvailable, ExecAlways:
	case "":
		if e.APIVersion == execV1 {
			return fmt.Errorf("exec plugin %q has no interactiveMode, which %s requires: use Never, IfAvailable or Always", e.Command, execV1)
		}
	default:
		return fmt.Errorf("exec plugin %q has interactiveMode %q: use Never, IfAvailable or Always", e.Command, e.InteractiveMode)
	}
	for _, pair := range e.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return fmt.Errorf("exec plugin %q: an environment variable has no name: use NAME=value", e.Command)
		}
	}
	return nil
}

// secrets returns the values of the plugin's environment variables and flags, which
// must not be shown.
func (e *Exec) secrets() []string {
	var out []string
	for _, pair := range e.Env {
		_, value, _ := strings.Cut(pair, "=")
		out = append(out, value)
	}
	for i, arg := range e.Args {
		flag := strings.HasPrefix(arg, "-")
		if _, value, ok := strings.Cut(arg, "="); ok {
			out = append(out, value)
		} else if !flag && i > 0 && strings.HasPrefix(e.Args[i-1], "-") {
			out = append(out, arg)
		}
	}
	return out
}
