package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Versions of the protocol between a client and its exec plugin.
const (
	execV1      = "client.authentication.k8s.io/v1"
	execV1beta1 = "client.authentication.k8s.io/v1beta1"
)

// execCredential is passed to the plugin in KUBERNETES_EXEC_INFO, with a spec, and
// printed by it, with a status.
type execCredential struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Spec       *execSpec   `json:"spec,omitempty"`
	Status     *execStatus `json:"status,omitempty"`
}

type execSpec struct {
	Interactive bool         `json:"interactive"`
	Cluster     *execCluster `json:"cluster,omitempty"`
}

type execCluster struct {
	Server             string          `json:"server"`
	TLSServerName      string          `json:"tls-server-name,omitempty"`
	Insecure           bool            `json:"insecure-skip-tls-verify,omitempty"`
	CAData             []byte          `json:"certificate-authority-data,omitempty"`
	ProxyURL           string          `json:"proxy-url,omitempty"`
	DisableCompression bool            `json:"disable-compression,omitempty"`
	Config             json.RawMessage `json:"config,omitempty"`
}

type execStatus struct {
	Expiration *time.Time `json:"expirationTimestamp,omitempty"`
	Token      string     `json:"token,omitempty"`
	CertData   string     `json:"clientCertificateData,omitempty"`
	KeyData    string     `json:"clientKeyData,omitempty"`
}

func (s *execStatus) secrets() []string { return []string{s.Token, s.KeyData} }

// execInfo returns the value of KUBERNETES_EXEC_INFO. caData is the cluster's CA.
func execInfo(c *Config, caData []byte, interactive bool) (string, error) {
	spec := &execSpec{Interactive: interactive}
	if c.Exec.ProvideClusterInfo {
		base, err := c.baseURL()
		if err != nil {
			return "", err
		}
		spec.Cluster = &execCluster{
			Server:             base.String(),
			TLSServerName:      c.TLS.ServerName,
			Insecure:           c.TLS.Insecure,
			CAData:             caData,
			ProxyURL:           c.ProxyURL,
			DisableCompression: !c.AcceptGzip,
			Config:             c.Exec.ClusterConfig,
		}
	}
	text, err := json.Marshal(execCredential{APIVersion: c.Exec.APIVersion, Kind: "ExecCredential", Spec: spec})
	if err != nil {
		return "", errors.New("the cluster's client.authentication.k8s.io/exec extension is not valid JSON")
	}
	return string(text), nil
}

// parseExecAnswer checks the plugin's output. Its errors quote only the version and the kind, and not even
// those if they look like a misplaced token. The status contains everything that could be parsed.
func parseExecAnswer(stdout []byte, version string) (execStatus, error) {
	var answer execCredential
	err := unmarshalYAML(stdout, &answer)
	var status execStatus
	if answer.Status != nil {
		status = *answer.Status
	}
	switch {
	case len(stdout) == 0:
		return status, errors.New("it printed nothing: it must print an ExecCredential")
	case err != nil:
		return status, fmt.Errorf("its output is not an ExecCredential: %w", describeSyntax(err))
	case answer.Kind != "ExecCredential":
		return status, fmt.Errorf("it printed an object of kind %q: it must print an ExecCredential", shorten(prose(answer.Kind)))
	case answer.APIVersion != version:
		return status, fmt.Errorf("its output has version %q but the kubeconfig specifies %q: make them match", shortVersion(answer.APIVersion), version)
	case answer.Status == nil:
		return status, errors.New("its ExecCredential has no status")
	case (status.CertData == "") != (status.KeyData == ""):
		return status, errors.New("its ExecCredential has a certificate without its key, or a key without its certificate")
	case status.Token == "" && status.CertData == "":
		return status, errors.New("its ExecCredential has neither a token nor a certificate")
	case hasControl(status.Token):
		return status, errors.New("its token contains a line break or another control character")
	}
	return status, nil
}

var isVersion = regexp.MustCompile(`^client\.authentication\.k8s\.io/v\d(alpha\d|beta\d)?$`)

// shortVersion formats a version for a message. It hides text that does not look like a version.
func shortVersion(s string) string {
	if isVersion.MatchString(s) {
		return s
	}
	return shorten(prose(s))
}

// shorten limits the length of untrusted text in a message.
func shorten(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
