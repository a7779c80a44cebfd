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

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/reading"
	"github.com/millrace-dev/millrace/source"
)

const (
	// refusalInterval is the minimum time between plugin runs caused by rejected credentials. Without it,
	// every request by a user without access would start a process.
	refusalInterval = 5 * time.Second

	// slowPlugin is how long a plugin may run before a warning is logged, because it may be waiting for a
	// login prompt that the user has not noticed.
	slowPlugin = 30 * time.Second

	// maxPluginTime limits the duration of a run. The user may have to log in during a run, in a browser or
	// at a prompt.
	maxPluginTime      = 5 * time.Minute
	maxInteractiveTime = 15 * time.Minute

	// abandonedAfter is how long a run continues after the last caller stopped waiting for it. A caller
	// that retries will have done so by then.
	abandonedAfter = 30 * time.Second
)

// execSource obtains credentials from a plugin and keeps them until they expire.
//
// A caller gets the cached credential or waits for the current run, starting one if
// necessary. All callers waiting for a run share its outcome, even if it is a failure or an expired
// credential. A run continues if a caller gives up, so that a slow plugin eventually succeeds even if every
// caller has a short timeout.
type execSource struct {
	config    *Config
	log       *slog.Logger
	run       func(ctx context.Context, e *Exec, info string, interactive bool) (pluginOutput, error)
	stdin     func() bool    // reports whether standard input is a terminal
	abandoned time.Duration  // abandonedAfter, except in tests
	authority *reading.Files // the cluster's CA, which the plugin may need

	mu      sync.Mutex // guards the fields below
	caData  []byte     // from the CA file, which is read before each run
	current credential
	status  execStatus // the status that current was created from
	valid   bool       // false before the first run, and after a rejection
	expires time.Time  // zero means never
	refusal time.Time  // when a rejected credential last caused a run
	running *pluginRun // nil if no plugin is running
}

// pluginRun is a running plugin. Its goroutine exits along with the plugin: after at most maxPluginTime, or
// when the run is abandoned.
type pluginRun struct {
	began time.Time
	stop  context.CancelCauseFunc

	waiting int         // number of callers; guarded by the source's mu, as are the next two fields
	idle    *time.Timer // stops the run; set while no caller is waiting
	givenUp bool        // the run is being stopped; do not use its outcome

	done chan struct{} // closed once the remaining fields are set
	cred credential
	err  error
}

var errAbandoned = errors.New("no request is waiting for it anymore")

func newExecSource(c *Config) *execSource {
	s := &execSource{config: c, log: c.logger(), run: runPlugin, stdin: stdinIsTerminal, abandoned: abandonedAfter}
	var files []reading.File
	if c.Exec.ProvideClusterInfo && c.TLS.CAFile != "" {
		files = c.TLS.files()[:1]
	}
	s.authority = reading.New(s.log, files, ReadFile, s.take)
	return s
}

// take is called with the CA file's content or the read error.
func (s *execSource) take(contents [][]byte, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caData = s.config.TLS.CAData
	for _, text := range contents {
		s.caData = text
	}
	return err
}

func (s *execSource) get(ctx context.Context) (credential, error) {
	what := fmt.Sprintf("exec plugin %q", s.config.Exec.Command)
	source.ProgressOf(ctx).Step("", what)
	for {
		run, cred := s.join()
		if run == nil {
			return cred, nil
		}
		select {
		case <-run.done:
			if s.leave(run) {
				return run.cred, run.err
			}
		case <-ctx.Done():
			s.leave(run)
			return credential{}, &source.StuckError{What: what, For: time.Since(run.began), Err: context.Cause(ctx)}
		}
	}
}

// join returns the current credential, or else a run to wait for, which the caller must leave. If that run
// has been given up, the caller waits only for it to end before starting the next one.
func (s *execSource) join() (*pluginRun, credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good() {
		return nil, s.current
	}
	if s.running == nil {
		s.start()
	}
	run := s.running
	run.waiting++
	if run.idle != nil {
		run.idle.Stop()
	}
	return run, credential{}
}

// start starts a run; the caller holds mu.
func (s *execSource) start() {
	ctx, stop := context.WithCancelCause(context.Background())
	run := &pluginRun{began: time.Now(), stop: stop, done: make(chan struct{})}
	s.running = run
	go func() {
		defer stop(nil)
		var cred credential
		err := failure.Apart("the run, or Config.Logger,", func() (err error) { // otherwise all callers would wait forever
			cred, err = s.ask(ctx)
			return err
		})
		if err != nil {
			err = fmt.Errorf("exec plugin %q: %w", s.config.Exec.Command, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		run.cred, run.err = cred, err
		s.running = nil
		close(run.done)
		if run.idle != nil {
			run.idle.Stop()
		}
	}()
}

// leave removes a waiting caller from the run. It reports whether the run's outcome may be used, which is
// not the case if the run was given up.
func (s *execSource) leave(run *pluginRun) (counts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.waiting--; run.waiting == 0 && s.running == run {
		run.idle = time.AfterFunc(s.abandoned, func() { s.giveUp(run) })
	}
	return !run.givenUp
}

// giveUp stops a run if no caller is waiting for it.
func (s *execSource) giveUp(run *pluginRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.waiting == 0 {
		run.givenUp = true
		run.stop(errAbandoned)
	}
}

// good reports whether the current credential may be used; the caller holds mu.
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

// certificate returns the current credential's client certificate, or nil.
func (s *execSource) certificate() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.certificate
}

// ask runs the plugin and parses its output.
func (s *execSource) ask(ctx context.Context) (credential, error) {
	e := s.config.Exec
	interactive := s.stdin() && e.InteractiveMode != ExecNever
	if e.InteractiveMode == ExecAlways && !interactive {
		return credential{}, errors.New("it needs a terminal (interactiveMode Always) and standard input is not one: run it in a terminal or use other credentials")
	}
	limit := maxPluginTime
	if interactive {
		limit = maxInteractiveTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	if err := s.authority.Wait(ctx); err != nil {
		return credential{}, err
	}
	s.mu.Lock()
	caData := s.caData
	s.mu.Unlock()
	info, err := execInfo(s.config, caData, interactive)
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

// reportSlow logs a warning unless done is called in time.
func (s *execSource) reportSlow() (done func()) {
	logged := make(chan struct{})
	timer := time.AfterFunc(slowPlugin, func() {
		defer close(logged)
		_ = failure.Apart("Config.Logger", func() error { // the run continues if the logger panics
			s.log.Warn("the exec plugin is still running: it may be waiting for a login", "command", s.config.Exec.Command, "after", slowPlugin)
			return nil
		})
	})
	return func() {
		if !timer.Stop() {
			<-logged
		}
	}
}

// accept makes the plugin's credential the current one.
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
		next.certificate = s.current.certificate // keep the pointer, and thus the connections
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
		s.log.Warn("the exec plugin's credential has already expired: check the clocks", "command", s.config.Exec.Command, "expired", expires)
	}
	s.current, s.status, s.expires, s.valid = next, status, expires, true
	return next, nil
}
