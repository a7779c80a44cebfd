package envtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
	// directory, which Stop removes.
	Dir string
	// Port on 127.0.0.1. Zero: that of the earlier server in Dir, or else a free
	// one, which stays the same.
	Port int
	// Flags for kube-apiserver, after those that test/kube gives it, such as
	// "--watch-cache=false".
	Flags []string

	// Etcd is the URL of the store, such as that of a server with OnlyEtcd. Empty: one
	// of its own, in the same process.
	Etcd string
	// OnlyEtcd runs etcd alone, without kube-apiserver. Of the Server's fields only
	// URL, http://127.0.0.1:port, and Log are set.
	OnlyEtcd bool
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
	return append(append(args, "--"), o.Flags...)
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

	program string
	dir     string
	ownsDir bool
	port    int
	args    []string // after those for dir and port

	mu   sync.Mutex
	proc *process // nil when stopped or killed
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
			t.Logf("the API server's log ends with:\n%s", logTail(s.Log))
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
	program, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: o.Dir, port: o.Port, args: o.args()}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "millrace-envtest-"); err != nil {
			return nil, fmt.Errorf("envtest: %w", err)
		}
		s.ownsDir = true
	}
	if err := s.launch(ctx); err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	return s, nil
}

// launch starts the process and learns where it is and who may enter.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %v", startTimeout))
	defer cancel()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
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
	args := []string{"--control", "--dir=" + s.dir, "--port=" + strconv.Itoa(s.port)}
	p, err := startProcess(s.program, append(args, s.args...), s.Log)
	if err != nil {
		return ready{}, fmt.Errorf("envtest: start the API server: %w", err)
	}
	var r ready
	if err := p.receive(ctx, &r); err != nil {
		p.kill()
		return ready{}, fmt.Errorf("envtest: start the API server: %w; its log ends with:\n%s", err, logTail(s.Log))
	}
	s.proc = p
	return r, nil
}

// Stop shuts the server down, returns when its process is gone, and removes the
// temporary directory unless the shutdown failed. Stopping twice, or after
// Kill, is no error.
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
	err := s.proc.stop()
	s.proc = nil
	if err != nil {
		return fmt.Errorf("envtest: stop the API server: %w; its log is %s", err, s.Log)
	}
	return nil
}

func (s *Server) removeDir() error {
	if !s.ownsDir {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// Kill ends the process at once, as a crash would, and returns when it is gone.
// Connections break, the port refuses. What the server had acknowledged is
// still there after Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
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
	if s.proc == nil {
		return answer{}, fmt.Errorf("envtest: %s: the server does not run", command)
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
