package envtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// startTimeout bounds the time from the start of the process to its first
// answer. It takes two seconds on an idle machine.
const startTimeout = 3 * time.Minute

// Options of a server. The zero value is a server in a temporary directory.
type Options struct {
	// Dir keeps the data, keys, kubeconfig and log, and is left behind. A
	// directory of an earlier server continues that server. Empty: a temporary
	// directory, which Stop removes. Where the process dies before, the next start
	// removes it that comes an hour later or more.
	Dir string
	// Port on 127.0.0.1. Zero: that of the earlier server in Dir, or else a free
	// one, which stays the same.
	Port int
	// Flags for kube-apiserver, after those that it is given anyway, such as
	// "--watch-cache=false". What is an option here is none among them.
	Flags []string
	// Gates turns features of kube-apiserver on and off by their names.
	Gates map[string]bool
	// Audit says how much of each request goes to the audit log. Empty: nothing.
	Audit AuditLevel

	// Files and Objects are installed once the server is ready, as InstallFiles and
	// Install do.
	Files   []string
	Objects []any

	// Etcd is the URL of the store, such as that of a server with OnlyEtcd. Empty: one
	// of its own, in the same process. It must answer within 15 seconds of the start.
	Etcd string
	// OnlyEtcd runs etcd alone, without kube-apiserver. Of the Server's fields only
	// URL, http://127.0.0.1:port, and Log are set.
	OnlyEtcd bool
	// Like is a server whose keys and tokens this one has, so that clients cannot tell
	// the two apart: for several API servers on one etcd. Nil: keys of its own.
	Like *Server
	// Quota is at how many bytes etcd is full. Zero: its default of 2 GiB.
	Quota int64
}

// args are the arguments of the program that the options ask for.
func (o Options) args() (args []string) {
	if o.Etcd != "" {
		args = append(args, "--etcd="+o.Etcd)
	}
	if o.OnlyEtcd {
		args = append(args, "--only-etcd")
	}
	if o.Quota != 0 {
		args = append(args, fmt.Sprintf("--quota=%d", o.Quota))
	}
	args = append(args, "--")
	for _, name := range slices.Sorted(maps.Keys(o.Gates)) {
		args = append(args, fmt.Sprintf("--feature-gates=%s=%t", name, o.Gates[name]))
	}
	return append(args, o.Flags...)
}

// Server is a running kube-apiserver, with etcd unless the options say otherwise.
type Server struct {
	URL         string // https://127.0.0.1:port
	CA          []byte // PEM, signed the server's certificate
	CAFile      string // file with CA
	ClientCert  string // file of a client certificate with all rights
	ClientKey   string // file of its key
	AdminToken  string // bearer token with all rights
	NobodyToken string // bearer token without any rights beyond discovery
	Kubeconfig  string // file; contexts admin (current), admin-cert and nobody
	Log         string // file; grows over restarts
	AuditLog    string // file, of Options.Audit; empty without

	what    string // "the API server" or "etcd", for messages
	program string
	dir     string
	release func() // gives the temporary directory free; nil without one
	port    int
	args    []string // after those for dir and port

	mu        sync.Mutex
	proc      *process // nil when stopped or killed
	suspended bool
	removed   bool // the temporary directory

	users sync.Mutex // held while a user is added

	webhooks sync.Mutex // guards webhook, and is held while it is made
	webhook  *Webhook   // nil until somebody asks
}

// Start builds the server if need be, starts it, and stops it when the test
// ends. Any failure ends the test. Under -short the test is skipped.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	s, err := Launch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s ends with:\n%s", s.what, logTail(s.Log))
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Launch builds the server if need be, starts it and returns when it is ready.
// The context bounds the start alone; the caller must call Stop.
func Launch(ctx context.Context, o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("envtest: %w", err)
	}
	program, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{what: "the API server", program: program, dir: o.Dir, port: o.Port, args: o.args()}
	if o.OnlyEtcd {
		s.what = "etcd"
	}
	if s.dir == "" {
		if s.dir, s.release, err = newTempDir(); err != nil {
			return nil, fmt.Errorf("envtest: make a temporary directory: %w", err)
		}
	}
	err = s.prepare(o)
	if err == nil {
		err = s.launch(ctx)
	}
	if err == nil {
		err = s.furnish(ctx, o)
	}
	if err != nil {
		s.Kill()
		return nil, errors.Join(err, s.removeDir())
	}
	return s, nil
}

// prepare puts into the directory what the server is to find there.
func (s *Server) prepare(o Options) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
	var err error
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
	if o.Like != nil {
		err := o.Like.there()
		if err == nil {
			err = copyKeys(o.Like.dir, s.dir)
		}
		if err != nil {
			return fmt.Errorf("envtest: take the keys of another server: %w", err)
		}
	}
	return s.auditTo(o.Audit)
}

// copyKeys copies what makes a server the same to its clients.
func copyKeys(from, to string) error {
	for _, pattern := range []string{"*.crt", "*.key", "tokens.csv"} {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%s has no %s", from, pattern)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// furnish installs what the options name.
func (s *Server) furnish(ctx context.Context, o Options) error {
	if len(o.Files) == 0 && len(o.Objects) == 0 {
		return nil
	}
	if err := s.InstallFiles(ctx, o.Files...); err != nil {
		return err
	}
	return s.Install(ctx, o.Objects...)
}

// launch starts the process and learns where it is and who may enter.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %v", startTimeout))
	defer cancel()
	s.Log = filepath.Join(s.dir, "server.log")
	ready, err := s.start(ctx)
	if err != nil {
		return err
	}
	if ready.CA != "" {
		if s.CA, err = os.ReadFile(ready.CA); err != nil {
			return errors.Join(fmt.Errorf("envtest: %w", err), s.stop())
		}
	}
	s.URL, s.CAFile, s.ClientCert, s.ClientKey = ready.URL, ready.CA, ready.ClientCert, ready.ClientKey
	s.AdminToken, s.NobodyToken, s.Kubeconfig = ready.AdminToken, ready.NobodyToken, ready.Kubeconfig
	u, err := url.Parse(s.URL)
	if err == nil {
		s.port, err = strconv.Atoi(u.Port())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("envtest: the server says it is at %q: %w", s.URL, err), s.stop())
	}
	return nil
}

// start runs the program in s.dir on s.port and waits until it is ready.
func (s *Server) start(ctx context.Context) (ready, error) {
	if err := s.exists(); err != nil {
		return ready{}, fmt.Errorf("envtest: start %s: %w", s.what, err)
	}
	args := []string{"--control", "--dir=" + s.dir, "--port=" + strconv.Itoa(s.port)}
	p, err := startProcess(s.program, append(args, s.args...), s.Log)
	if err != nil {
		return ready{}, fmt.Errorf("envtest: start %s: %w", s.what, err)
	}
	var r ready
	err = p.receive(ctx, &r)
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		p.kill()
		return ready{}, fmt.Errorf("envtest: start %s: %w; %s", s.what, err, p.said())
	}
	s.proc, s.suspended = p, false
	return r, nil
}

// exists says that the server has lost its directory, if that is so. The lock is held, or
// nobody else has the server yet.
func (s *Server) exists() error {
	if s.removed {
		return errors.New("it was stopped, and its temporary directory is gone: Kill keeps that, and Stop keeps Options.Dir")
	}
	return nil
}

// there is exists for those who do not have the lock.
func (s *Server) there() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exists()
}

// awake says why the server will not answer, if that is so. The lock is held.
func (s *Server) awake() error {
	if err := s.exists(); err != nil {
		return err
	}
	switch {
	case s.proc == nil:
		return errors.New("the server does not run")
	case s.suspended:
		return errors.New("the server is suspended: Resume it first")
	}
	select {
	case <-s.proc.done:
		return fmt.Errorf("the process ended: %w; %s", orExit0(s.proc.err), s.proc.said())
	default:
		return nil
	}
}

// answers is awake for those who do not have the lock.
func (s *Server) answers() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awake()
}

// Stop shuts the server down, returns when its process is gone, and removes the
// temporary directory unless the shutdown failed. One that is suspended goes on for that.
// Stopping twice, or after Kill, is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	return s.removeDir()
}

func (s *Server) stop() error {
	if s.proc == nil {
		return nil
	}
	if s.suspended {
		s.wake()
	}
	err := s.proc.stop()
	s.proc, s.suspended = nil, false
	if err != nil {
		return fmt.Errorf("envtest: stop %s: %w; its log is %s", s.what, err, s.Log)
	}
	return nil
}

// removeDir removes the temporary directory, if there is one. The lock is held, or nobody
// else has the server yet.
func (s *Server) removeDir() error {
	if s.release == nil || s.removed {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
	s.release()
	s.removed = true
	return nil
}

// Kill ends the process at once, as a crash would, and returns when it is gone.
// Connections break, the port refuses. What the server had acknowledged is
// still there after Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.kill()
		s.proc, s.suspended = nil, false
	}
}

// Restart starts the server again with the same data, URL, CA and tokens, and
// returns when it is ready. A server that still runs is shut down first.
// Resource versions older than the restart are expired for watches.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %v", startTimeout))
	defer cancel()
	if err := s.stop(); err != nil {
		return err
	}
	_, err := s.start(ctx)
	return err
}

// Compact makes etcd forget all history before the current resource version,
// which it returns. See the package documentation for what else it takes to
// get a 410.
func (s *Server) Compact(ctx context.Context) (int64, error) {
	a, err := s.command(ctx, "compact")
	return a.Revision, err
}

// Defragment makes etcd give unused space back, and write again if it has refused to
// since it was full (Options.Quota). Delete and Compact first.
func (s *Server) Defragment(ctx context.Context) error {
	_, err := s.command(ctx, "defragment")
	return err
}

func (s *Server) command(ctx context.Context, command string) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awake(); err != nil {
		return answer{}, fmt.Errorf("envtest: %s: %w", command, err)
	}
	var a answer
	err := s.proc.send(command)
	if err == nil {
		err = s.proc.receive(ctx, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return answer{}, fmt.Errorf("envtest: %s: %w", command, err)
	}
	return a, nil
}
