package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// The versions of the protocol between a client and its exec plugin.
const (
	execV1      = "client.authentication.k8s.io/v1"
	execV1beta1 = "client.authentication.k8s.io/v1beta1"
)

const (
	// refusalInterval is how often, at most, a plugin is run because the server
	// refused its credential. Without it a user without access would start a
	// process with every request.
	refusalInterval = 5 * time.Second

	// slowPlugin is when a plugin that is still running is reported: it may wait
	// for a login that nobody sees.
	slowPlugin = 30 * time.Second
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

// ExecConfig is a program that prints a credential: an ExecCredential object of
// client.authentication.k8s.io, v1 or v1beta1. The credential is used until its
// expirationTimestamp and replaced when the server answers 401. Requests that
// need it at the same time share one run, whose output or failure goes to all of
// them.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
type ExecConfig struct {
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

func (e *ExecConfig) validate() error {
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

// execCredential is what goes to the plugin in KUBERNETES_EXEC_INFO, with a
// spec, and what comes back, with a status.
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

// execSource gets credentials from a plugin and keeps them until they expire.
//
// To get one: take it from the cache; or else wait for the turn, look again,
// and run the plugin. Who waited for a run that failed fails with it, unless
// only that run's own request was cancelled.
type execSource struct {
	config *Config
	log    *slog.Logger
	run    func(ctx context.Context, e *ExecConfig, info string, interactive bool) (pluginOutput, error)
	stdin  func() bool // whether standard input is a terminal

	turn chan struct{} // holds one element while somebody runs the plugin; taken before mu

	mu       sync.Mutex // guards the fields below
	current  credential
	status   execStatus // what current was made of
	valid    bool       // false before the first run, and after a refusal
	expires  time.Time  // zero for never
	refusal  time.Time  // when a refusal last made the plugin run
	failures int        // failed runs
	failure  error      // of the last failed run
}

func newExecSource(c *Config) *execSource {
	return &execSource{config: c, log: c.logger(), run: runPlugin, stdin: stdinIsTerminal, turn: make(chan struct{}, 1)}
}

func (s *execSource) get(ctx context.Context) (credential, error) {
	cred, ok, failures := s.cached()
	if ok {
		return cred, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return credential{}, fmt.Errorf("wait for exec plugin %q: %w", s.config.Exec.Command, context.Cause(ctx))
	}
	cred, ok, now := s.cached()
	if ok {
		return cred, nil
	}
	if now != failures {
		s.mu.Lock()
		defer s.mu.Unlock()
		return credential{}, s.failure
	}
	return s.refresh(ctx)
}

func (s *execSource) renew(ctx context.Context, refused credential) (credential, error) {
	s.mu.Lock()
	if s.valid && s.current == refused {
		if !s.refusal.IsZero() && time.Since(s.refusal) < refusalInterval {
			s.mu.Unlock()
			return refused, nil
		}
		s.refusal = time.Now()
		s.valid = false
	}
	s.mu.Unlock()
	return s.get(ctx)
}

// cached returns the credential if it may still be used, and the number of
// failed runs so far.
func (s *execSource) cached() (credential, bool, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.valid && (s.expires.IsZero() || time.Now().Before(s.expires))
	return s.current, ok, s.failures
}

// certificate returns the client certificate of the last credential, or nil.
func (s *execSource) certificate() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.certificate
}

// refresh runs the plugin. The caller has the turn.
func (s *execSource) refresh(ctx context.Context) (credential, error) {
	cred, err := s.ask(ctx)
	if err == nil {
		return cred, nil
	}
	err = fmt.Errorf("exec plugin %q: %w", s.config.Exec.Command, err)
	if ctx.Err() == nil {
		s.mu.Lock()
		s.failures++
		s.failure = err
		s.mu.Unlock()
	}
	return credential{}, err
}

func (s *execSource) ask(ctx context.Context) (credential, error) {
	e := s.config.Exec
	interactive := s.stdin() && e.InteractiveMode != ExecNever
	if e.InteractiveMode == ExecAlways && !interactive {
		return credential{}, errors.New("it needs a terminal (interactiveMode Always) and standard input is none: run it in a terminal or use other credentials")
	}
	info, err := s.info(interactive)
	if err != nil {
		return credential{}, err
	}
	defer s.reportSlow()()
	out, err := s.run(ctx, e, info, interactive)
	status, answerErr := parseExecAnswer(out.stdout, e.APIVersion)
	s.mu.Lock()
	stderr := showStderr(out.stderr, slices.Concat(e.secrets(), s.status.secrets(), status.secrets()))
	s.mu.Unlock()
	if err != nil {
		return credential{}, describeRun(ctx, e, err, stderr)
	}
	if answerErr != nil {
		return credential{}, withStderr(answerErr, stderr)
	}
	if stderr != "" && !interactive {
		s.log.Warn("the exec plugin wrote to standard error", "command", e.Command, "stderr", stderr)
	}
	return s.accept(status)
}

// reportSlow logs if the function it returns is not called in time.
func (s *execSource) reportSlow() (done func()) {
	logged := make(chan struct{})
	timer := time.AfterFunc(slowPlugin, func() {
		defer close(logged)
		s.log.Warn("the exec plugin is still running: it may be waiting for a login", "command", s.config.Exec.Command, "after", slowPlugin)
	})
	return func() {
		if !timer.Stop() {
			<-logged
		}
	}
}

// info is the value of KUBERNETES_EXEC_INFO.
func (s *execSource) info(interactive bool) (string, error) {
	c := s.config
	spec := &execSpec{Interactive: interactive}
	if c.Exec.ProvideClusterInfo {
		pems, err := c.TLS.load()
		if err != nil {
			return "", err
		}
		base, err := c.baseURL()
		if err != nil {
			return "", err
		}
		spec.Cluster = &execCluster{
			Server:             base.String(),
			TLSServerName:      c.TLS.ServerName,
			Insecure:           c.TLS.Insecure,
			CAData:             pems.ca,
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

// parseExecAnswer checks what a plugin printed. Its errors repeat none of it
// but the version and kind. The status is set as far as it could be read.
func parseExecAnswer(stdout []byte, version string) (execStatus, error) {
	var answer execCredential
	err := yaml.Unmarshal(stdout, &answer)
	var status execStatus
	if answer.Status != nil {
		status = *answer.Status
	}
	switch {
	case len(stdout) == 0:
		return status, errors.New("it printed nothing: it must print an ExecCredential")
	case err != nil:
		return status, fmt.Errorf("what it printed is not an ExecCredential: %w", describeSyntax(err))
	case answer.Kind != "ExecCredential":
		return status, fmt.Errorf("it printed an object of kind %q: it must print an ExecCredential", shorten(answer.Kind))
	case answer.APIVersion != version:
		return status, fmt.Errorf("it answered in version %q but the kubeconfig says %q: make them the same", shorten(answer.APIVersion), version)
	case answer.Status == nil:
		return status, errors.New("its ExecCredential has no status")
	case (status.CertData == "") != (status.KeyData == ""):
		return status, errors.New("its ExecCredential has a certificate without its key, or a key without its certificate")
	case status.Token == "" && status.CertData == "":
		return status, errors.New("its ExecCredential has neither a token nor a certificate")
	case hasControl(status.Token):
		return status, errors.New("its token holds a line break or another control character")
	}
	return status, nil
}

// shorten bounds a text from outside for a message.
func shorten(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// accept makes the plugin's answer the current credential.
func (s *execSource) accept(status execStatus) (credential, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next credential
	var expires time.Time
	if status.Token != "" {
		next.authorization = "Bearer " + status.Token
	}
	if status.Expiration != nil {
		expires = *status.Expiration
	}
	switch {
	case status.CertData == "":
	case s.current.certificate != nil && status.CertData == s.status.CertData && status.KeyData == s.status.KeyData:
		next.certificate = s.current.certificate // the same pointer, so that connections are kept
	default:
		pair, err := tls.X509KeyPair([]byte(status.CertData), []byte(status.KeyData))
		if err != nil {
			return credential{}, fmt.Errorf("its client certificate: %w", err)
		}
		next.certificate = &pair
	}
	if next.certificate != nil {
		if end := notAfter(next.certificate.Leaf); expires.IsZero() || end.Before(expires) {
			expires = end
		}
	}
	if !expires.IsZero() && !time.Now().Before(expires) {
		s.log.Warn("the exec plugin's credential has expired already: compare the clocks", "command", s.config.Exec.Command, "expired", expires)
	}
	s.current, s.status, s.expires, s.valid = next, status, expires, true
	return next, nil
}

// notAfter returns when a certificate ends, zero if it is not known.
func notAfter(leaf *x509.Certificate) time.Time {
	if leaf == nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

func (s *execStatus) secrets() []string { return []string{s.Token, s.KeyData} }

// secrets returns what a plugin was told and others should not hear: the values
// of its environment and of its flags.
func (e *ExecConfig) secrets() []string {
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

// stdinIsTerminal takes any character device but the null device for a terminal.
func stdinIsTerminal() bool {
	in, err := os.Stdin.Stat()
	if err != nil || in.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(in, null)
}
