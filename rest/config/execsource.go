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
	// refusalInterval is how often, at most, a plugin is run because the server
	// refused its credential. Without it a user without access would start a
	// process with every request.
	refusalInterval = 5 * time.Second

	// slowPlugin is when a plugin that is still running is reported: it may wait
	// for a login that nobody sees.
	slowPlugin = 30 * time.Second

	// maxPluginTime bounds a run. Somebody may have to log in, in a browser or, with
	// a terminal, at a prompt.
	maxPluginTime      = 5 * time.Minute
	maxInteractiveTime = 15 * time.Minute

	// abandonedAfter ends a run that nobody has waited for during so long: those who
	// retry would have come back.
	abandonedAfter = 30 * time.Second
)

// execSource gets credentials from a plugin and keeps them until they expire.
//
// To get one: take it from the cache; or else wait for the run that is under way,
// or begin one. All callers that wait for a run share its outcome, whether that is a
// failure or a credential that is past its time already. A run is nobody's own: it
// goes on when a caller gives up, so that callers in a hurry, one after another, get
// the credential of a plugin that is slower than each of them.
type execSource struct {
	config    *Config
	log       *slog.Logger
	run       func(ctx context.Context, e *Exec, info string, interactive bool) (pluginOutput, error)
	stdin     func() bool    // whether standard input is a terminal
	abandoned time.Duration  // abandonedAfter, but in tests
	authority *reading.Files // for what the plugin is told of the cluster

	mu      sync.Mutex // guards the fields below
	caData  []byte     // of the authority's file, which is read before each run
	current credential
	status  execStatus // what current was made of
	valid   bool       // false before the first run, and after a refusal
	expires time.Time  // zero for never
	refusal time.Time  // when a refusal last made the plugin run
	running *pluginRun // nil while no plugin runs
}

// pluginRun is a plugin at work. Its goroutine ends with the plugin: after
// maxPluginTime at most, or when nobody waits for it any more.
type pluginRun struct {
	began time.Time
	stop  context.CancelCauseFunc

	waiting int         // callers; guarded by the source's mu, as are the two below
	idle    *time.Timer // gives up the run, while nobody waits for it
	givenUp bool        // it is being ended, and is not to be waited for

	done chan struct{} // closed when the rest is set
	cred credential
	err  error
}

var errAbandoned = errors.New("nobody waits for it any more")

func newExecSource(c *Config) *execSource {
	s := &execSource{config: c, log: c.logger(), run: runPlugin, stdin: stdinIsTerminal, abandoned: abandonedAfter}
	var files []reading.File
	if c.Exec.ProvideClusterInfo && c.TLS.CAFile != "" {
		files = c.TLS.files()[:1]
	}
	s.authority = reading.New(s.log, files, ReadFile, s.take)
	return s
}

// take is called with what the authority's file holds, or why it cannot be read.
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

// join returns the run to wait for, which the caller must leave, or else the current
// credential. A run that was given up is waited for only to begin the next one.
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

// start begins a run; mu is held.
func (s *execSource) start() {
	ctx, stop := context.WithCancelCause(context.Background())
	run := &pluginRun{began: time.Now(), stop: stop, done: make(chan struct{})}
	s.running = run
	go func() {
		defer stop(nil)
		var cred credential
		err := failure.Apart("the run, or Config.Logger,", func() (err error) { // or all would wait for ever
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

// leave is called when a caller no longer waits for the run. It reports whether its
// outcome counts, as that of a run that was given up does not.
func (s *execSource) leave(run *pluginRun) (counts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.waiting--; run.waiting == 0 && s.running == run {
		run.idle = time.AfterFunc(s.abandoned, func() { s.giveUp(run) })
	}
	return !run.givenUp
}

// giveUp ends a run that nobody waits for.
func (s *execSource) giveUp(run *pluginRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.waiting == 0 {
		run.givenUp = true
		run.stop(errAbandoned)
	}
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

// ask runs the plugin, and reads its answer.
func (s *execSource) ask(ctx context.Context) (credential, error) {
	e := s.config.Exec
	interactive := s.stdin() && e.InteractiveMode != ExecNever
	if e.InteractiveMode == ExecAlways && !interactive {
		return credential{}, errors.New("it needs a terminal (interactiveMode Always) and standard input is none: run it in a terminal or use other credentials")
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

// reportSlow logs if the function it returns is not called in time.
func (s *execSource) reportSlow() (done func()) {
	logged := make(chan struct{})
	timer := time.AfterFunc(slowPlugin, func() {
		defer close(logged)
		_ = failure.Apart("Config.Logger", func() error { // the run goes on without
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
