package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ExecInteractiveMode says whether an exec plugin may use standard input.
type ExecInteractiveMode string

const (
	// ExecNever gives the plugin no standard input.
	ExecNever ExecInteractiveMode = "Never"
	// ExecIfAvailable gives it standard input if that is a terminal.
	ExecIfAvailable ExecInteractiveMode = "IfAvailable"
	// ExecAlways fails if standard input is not a terminal.
	ExecAlways ExecInteractiveMode = "Always"
)

// Exec is a program that prints a credential: an ExecCredential object of
// client.authentication.k8s.io, v1 or v1beta1. The credential is used until its
// expirationTimestamp, and replaced when the server answers 401. Connections that
// showed a replaced client certificate are closed as [TLS] says. Requests that need
// it at the same time share one run and its outcome. A run goes on when a request
// gives up, for the next one; it may take five minutes, with a terminal fifteen.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
type Exec struct {
	// Command is a path, or a name to look up in PATH.
	Command string
	Args    []string
	// Env is added to the environment of this process, as NAME=value.
	Env []string

	// APIVersion is the version of the protocol, which the plugin's answer must have.
	APIVersion string

	// InstallHint is added to the error when the program cannot be run.
	InstallHint string

	// ProvideClusterInfo tells the plugin the cluster, in KUBERNETES_EXEC_INFO.
	ProvideClusterInfo bool
	// ClusterConfig is what the cluster's entry in the kubeconfig has to tell the
	// plugin: its extension named client.authentication.k8s.io/exec, in JSON.
	ClusterConfig json.RawMessage

	// InteractiveMode must be set with v1. With v1beta1 it is ExecIfAvailable if empty.
	InteractiveMode ExecInteractiveMode
}

func (e *Exec) validate() error {
	if e.Command == "" {
		return errors.New("the exec plugin has no command: name the program to run")
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
			return fmt.Errorf("exec plugin %q has no interactiveMode, which %s demands: use Never, IfAvailable or Always", e.Command, execV1)
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

// secrets returns what a plugin was told and others should not hear: the values
// of its environment and of its flags.
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
