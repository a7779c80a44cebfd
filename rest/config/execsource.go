package config

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
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

// execSource gets credentials from a plugin and keeps them until they expire.
//
// To get one: take it from the cache; or else wait for the turn and run the
// plugin. Who waited while a run finished shares its outcome instead, be it a
// failure or a credential that is past its time already; a run whose own
// request was cancelled does not count.
type execSource struct {
	config *Config
	log    *slog.Logger
	run    func(ctx context.Context, e *Exec, info string, interactive bool) (pluginOutput, error)
	stdin  func() bool // whether standard input is a terminal

	turn chan struct{} // holds one element while somebody runs the plugin; taken before mu

	mu      sync.Mutex // guards the fields below
	current credential
	status  execStatus // what current was made of
	valid   bool       // false before the first run, and after a refusal
	expires time.Time  // zero for never
	refusal time.Time  // when a refusal last made the plugin run
	runs    int        // finished ones, without those whose request was cancelled
	failure error      // of the last of them, or nil
}

func newExecSource(c *Config) *execSource {
	return &execSource{config: c, log: c.logger(), run: runPlugin, stdin: stdinIsTerminal, turn: make(chan struct{}, 1)}
}

func (s *execSource) get(ctx context.Context) (credential, error) {
	s.mu.Lock()
	runs, cred, good := s.runs, s.current, s.good()
	s.mu.Unlock()
	if good {
		return cred, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return credential{}, fmt.Errorf("wait for exec plugin %q: %w", s.config.Exec.Command, context.Cause(ctx))
	}
	s.mu.Lock()
	cred, failure := s.current, s.failure
	shared := s.runs != runs && (failure != nil || s.valid)
	s.mu.Unlock()
	switch {
	case shared && failure != nil:
		return credential{}, failure
	case shared:
		return cred, nil
	}
	return s.refresh(ctx)
}

// good reports whether the current credential may be used; mu is held.
func (s *execSource) good() bool {
	return s.valid && (s.expires.IsZero() || time.Now().Before(s.expires))
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

// certificate returns the client certificate of the last credential, or nil.
func (s *execSource) certificate() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.certificate
}

// refresh runs the plugin. The caller has the turn.
func (s *execSource) refresh(ctx context.Context) (credential, error) {
	cred, err := s.ask(ctx)
	if err != nil {
		err = fmt.Errorf("exec plugin %q: %w", s.config.Exec.Command, err)
		if ctx.Err() != nil {
			return credential{}, err
		}
	}
	s.mu.Lock()
	s.runs++
	s.failure = err
	s.mu.Unlock()
	return cred, err
}

func (s *execSource) ask(ctx context.Context) (credential, error) {
	e := s.config.Exec
	interactive := s.stdin() && e.InteractiveMode != ExecNever
	if e.InteractiveMode == ExecAlways && !interactive {
		return credential{}, errors.New("it needs a terminal (interactiveMode Always) and standard input is none: run it in a terminal or use other credentials")
	}
	info, err := execInfo(s.config, interactive)
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
	if c := next.certificate; c != nil && c.Leaf != nil && (expires.IsZero() || c.Leaf.NotAfter.Before(expires)) {
		expires = c.Leaf.NotAfter
	}
	if !expires.IsZero() && !time.Now().Before(expires) {
		s.log.Warn("the exec plugin's credential has expired already: compare the clocks", "command", s.config.Exec.Command, "expired", expires)
	}
	s.current, s.status, s.expires, s.valid = next, status, expires, true
	return next, nil
}
