package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout limits the time from starting the process to its first response, which takes two seconds on
// an idle machine.
const startTimeout = 3 * time.Minute

// Options configure a [Server]. With the zero value, the server uses a temporary directory.
type Options struct {
	// Dir is the directory for data, keys, kubeconfig and log. It is not removed. If Dir was used by an
	// earlier server of the same Kubernetes minor version or the previous one, the new server continues
	// with that data. Empty means a temporary directory, which Stop removes. If the process dies before
	// that, it is removed by the first start at least an hour later.
	Dir string
	// Port is the port on 127.0.0.1. Zero means the port of the earlier server in Dir or, if there was
	// none, a free port, which is then kept.
	Port int
	// Flags are additional flags for kube-apiserver, such as "--watch-cache=false". Flags
	// that correspond to an option here are rejected.
	Flags []string
	// Gates enables and disables kube-apiserver features by name.
	Gates map[string]bool
	// Audit is the level of detail of the audit log. Empty means no audit log.
	Audit AuditLevel

	// Files and Objects are installed once the server is ready, as by [Server.InstallFiles] and
	// [Server.Install].
	Files   []string
	Objects []any

	// Etcd is the URL of the etcd to use, for example that of a server with OnlyEtcd. It must
	// respond within 15 seconds of the start. If Etcd is empty, etcd runs in the server's process.
	Etcd string
	// OnlyEtcd runs etcd without kube-apiserver. In that case only two fields of the [Server] are set:
	// URL, which is http://127.0.0.1:port, and Log.
	OnlyEtcd bool
	// Like is a server whose keys and tokens the new server copies, so clients cannot tell the two apart.
	// Use it to run several API servers on the same etcd. Start fails if Dir contains different keys. Nil
	// means new keys.
	Like *Server
	// Quota is the maximum size of etcd's data, in bytes. Zero means etcd's default of 2 GiB.
	Quota int64
}

// args converts the options to program arguments.
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

// Server is a running kube-apiserver, along with its etcd unless configured otherwise.
type Server struct {
	URL         string // https://127.0.0.1:port
	CA          []byte // PEM; the issuer of the server's certificate
	CAFile      string // file with CA
	ClientCert  string // file with a client certificate that grants all rights
	ClientKey   string // file with the certificate's key
	AdminToken  string // bearer token that grants all rights
	NobodyToken string // bearer token that grants only discovery
	Kubeconfig  string // file with contexts admin (current), admin-cert and nobody
	Log         string // file; restarts append to it
	AuditLog    string // file; empty without Options.Audit

	what    string // "the API server" or "etcd", for messages
	program string
	dir     string
	release func() // releases the temporary directory; nil if there is none
	port    int
	args    []string // arguments other than those for dir and port

	mu        sync.Mutex // guards the fields below; never held while waiting for the server
	proc      *process   // nil when stopped or killed
	suspended bool
	removed   bool // the temporary directory has been removed

	talk  turn // held while starting the process or sending it a command, so responses arrive in order
	users turn // held while adding a user

	webhooks sync.Mutex // guards webhook, even while it is being created
	webhook  *Webhook   // nil until first used
}

// Start builds the server if necessary, starts it, and stops it when the test ends. If anything fails,
// Start fails the test, even if it is only that a build would exceed the test binary's time limit. Under
// -short it skips the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	ctx, cancel := withinLimit(t.Context(), t)
	defer cancel()
	s, err := Launch(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of %s's log:\n%s", s.what, logTail(s.Log))
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// errLimit refers to go test -timeout, which is ten minutes by default.
var errLimit = errors.New("the test is about to time out: for the first run, use go test -timeout 30m")

// withinLimit returns a context that is canceled shortly before t's deadline, if there is one. If the
// test ran into its deadline, package testing would panic without reporting what took so long.
func withinLimit(ctx context.Context, t testing.TB) (context.Context, context.CancelFunc) {
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return ctx, func() {}
	}
	limit, ok := limited.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, limit.Add(-min(10*time.Second, time.Until(limit)/10)), errLimit)
}

// Launch builds the server if necessary, starts it and returns when it is ready. The context applies only
// to the start; the caller must call [Server.Stop].
func Launch(ctx context.Context, o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("envtest: %w", err)
	}
	program, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{what: "the API server", program: program, dir: o.Dir, port: o.Port, args: o.args(), talk: newTurn(), users: newTurn()}
	if o.OnlyEtcd {
		s.what = "etcd"
	}
	if s.dir == "" {
		if s.dir, s.release, err = newTempDir(); err != nil {
			return nil, fmt.Errorf("envtest: create a temporary directory: %w", err)
		}
	}
	err = s.prepare(o)
	if err == nil {
		err = s.launch(ctx)
	}
	if err == nil && o.Etcd == "" {
		err = s.keepVersion()
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

// prepare creates the server's files in its directory.
func (s *Server) prepare(o Options) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
	var err error
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
	if o.Etcd == "" { // otherwise the data is elsewhere
		now, err := minor()
		if err == nil {
			err = checkVersion(s.dir, now)
		}
		if err != nil {
			return fmt.Errorf("envtest: start %s: %w", s.what, err)
		}
	}
	if o.Like != nil {
		err := o.Like.there()
		if err == nil {
			err = copyKeys(o.Like.dir, s.dir)
		}
		if err != nil {
			return fmt.Errorf("envtest: copy the keys from another server: %w", err)
		}
	}
	return s.auditTo(o.Audit)
}

// keepVersion records in the directory that a server of this version has been ready.
func (s *Server) keepVersion() error {
	now, err := minor()
	if err == nil {
		err = keepVersion(s.dir, now)
	}
	if err != nil {
		return fmt.Errorf("envtest: record the version of %s: %w", s.what, err)
	}
	return nil
}

// copyKeys copies the files that make two servers look the same to clients. Files that already
// exist must be identical.
func copyKeys(from, to string) error {
	keys := map[string][]byte{} // by target file name
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
			copied := filepath.Join(to, filepath.Base(name))
			there, err := os.ReadFile(copied)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				keys[copied] = text
			case err != nil:
				return err
			case !bytes.Equal(there, text):
				return fmt.Errorf("%s exists and differs from that of the server in %s: leave out Options.Like, or choose another Dir", copied, from)
			}
		}
	}
	for name, text := range keys {
		if err := writeFile(name, text); err != nil {
			return err
		}
	}
	return nil
}

// furnish installs the objects from the options.
func (s *Server) furnish(ctx context.Context, o Options) error {
	if len(o.Files) == 0 && len(o.Objects) == 0 {
		return nil
	}
	if err := s.InstallFiles(ctx, o.Files...); err != nil {
		return err
	}
	return s.Install(ctx, o.Objects...)
}

// launch starts the process and fills in the [Server] fields.
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
		return errors.Join(fmt.Errorf("envtest: the server reported an invalid URL %q: %w", s.URL, err), s.stop())
	}
	return nil
}

// start runs the program in s.dir on s.port and waits until it is ready. The caller must hold talk.
// Kill and Stop interrupt start.
func (s *Server) start(ctx context.Context) (ready, error) {
	p, err := s.begin()
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
		s.ended(p)
		return ready{}, fmt.Errorf("envtest: start %s: %w; %s", s.what, err, p.said())
	}
	return r, nil
}

// begin starts the process.
func (s *Server) begin() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.exists(); err != nil {
		return nil, err
	}
	if err := s.endLine(); err != nil {
		return nil, err
	}
	args := []string{"--control", "--dir=" + s.dir, "--port=" + strconv.Itoa(s.port)}
	p, err := startProcess(s.program, append(args, s.args...), s.Log)
	if err != nil {
		return nil, err
	}
	s.proc, s.suspended = p, false
	return p, nil
}

// ended records that a process has exited.
func (s *Server) ended(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == p {
		s.proc, s.suspended = nil, false
	}
}

// exists returns an error if the server's directory no longer exists. The caller holds mu, or the server is
// not yet shared.
func (s *Server) exists() error {
	if s.removed {
		return errors.New("it was stopped, which removed its temporary directory: use Kill, which keeps it, or set Options.Dir")
	}
	return nil
}

// there is like exists, but for callers that do not hold mu.
func (s *Server) there() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exists()
}

var errSuspended = errors.New("the server is suspended: call Resume first")

// awake returns an error if the server will not respond. The caller holds mu.
func (s *Server) awake() error {
	if err := s.exists(); err != nil {
		return err
	}
	switch {
	case s.proc == nil:
		return errors.New("the server is not running")
	case s.suspended:
		return errSuspended
	}
	if s.proc.over() {
		return fmt.Errorf("the process exited: %w; %s", orExit0(s.proc.err), s.proc.said())
	}
	return nil
}

// answers returns an error if the server will not respond. It waits for a start or
// command in progress, unless the server is suspended.
func (s *Server) answers(ctx context.Context) error {
	if err := s.toTalk(ctx); err != nil {
		return err
	}
	defer s.talk.leave()
	_, err := s.running()
	return err
}

// toTalk acquires talk.
func (s *Server) toTalk(ctx context.Context) error {
	s.mu.Lock()
	suspended := s.suspended && s.proc != nil
	s.mu.Unlock()
	if suspended {
		return errSuspended
	}
	if err := s.talk.take(ctx); err != nil {
		return fmt.Errorf("wait for a start or command in progress: %w", err)
	}
	return nil
}

// running returns the process, or an error if it will not respond.
func (s *Server) running() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc, s.awake()
}

// Stop shuts down the server, waits for its process to exit, and removes the temporary directory unless the
// shutdown failed. A suspended server is resumed first. Calling Stop again, or after Kill, does nothing.
// Other calls waiting for the server fail.
func (s *Server) Stop() error {
	if err := s.stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return fmt.Errorf("envtest: stop %s: it was restarted in the meantime", s.what)
	}
	return s.removeDir()
}

func (s *Server) stop() error {
	p := s.awaken()
	if p == nil {
		return nil
	}
	err := p.stop()
	s.ended(p)
	if err != nil {
		return fmt.Errorf("envtest: stop %s: %w; its log is %s", s.what, err, s.Log)
	}
	return nil
}

// awaken returns the process, resuming it if suspended, or nil if there is none.
func (s *Server) awaken() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspended {
		s.wake()
	}
	s.suspended = false
	return s.proc
}

// removeDir removes the temporary directory, if there is one. The caller holds mu, or the server is not yet
// shared.
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

// Kill terminates the process immediately, as a crash would, and waits for it to exit. Connections break,
// and the port refuses new ones. Acknowledged writes are still there after a Restart. Other calls waiting
// for the server fail, even Restart and Stop.
func (s *Server) Kill() {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	if p != nil {
		p.kill()
		s.ended(p)
	}
}

// Restart restarts the server with the same data, URL, CA and tokens, and returns once it is ready. A
// running server is shut down first. A crashed server is started again, as it would be after
// [Server.Kill]. Watches can no longer start from resource versions before the restart, because these
// have expired.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("not ready after %v", startTimeout))
	defer cancel()
	s.awaken() // otherwise a command in progress may never finish
	if err := s.toTalk(ctx); err != nil {
		return fmt.Errorf("envtest: restart %s: %w", s.what, err)
	}
	defer s.talk.leave()
	if p, _ := s.running(); p != nil && p.over() {
		s.ended(p) // it has crashed, so there is nothing to shut down
	}
	if err := s.stop(); err != nil {
		return err
	}
	_, err := s.start(ctx)
	return err
}

// Compact makes etcd drop all history before the current resource version, which it returns. This alone
// does not cause a list or watch to fail with 410; see the package documentation. If the server is
// suspended during the call, Compact waits until ctx is done. If it is stopped or killed, Compact fails.
func (s *Server) Compact(ctx context.Context) (int64, error) {
	a, err := s.command(ctx, "compact")
	return a.Revision, err
}

// Defragment makes etcd release unused space, and accept writes again if it was rejecting them because it
// had reached Options.Quota. Delete objects and call [Server.Compact] first.
func (s *Server) Defragment(ctx context.Context) error {
	_, err := s.command(ctx, "defragment")
	return err
}

func (s *Server) command(ctx context.Context, command string) (answer, error) {
	if err := s.toTalk(ctx); err != nil {
		return answer{}, fmt.Errorf("envtest: %s: %w", command, err)
	}
	defer s.talk.leave()
	p, err := s.running()
	if err != nil {
		return answer{}, fmt.Errorf("envtest: %s: %w", command, err)
	}
	var a answer
	err = p.send(command)
	if err == nil || errors.Is(err, syscall.EPIPE) { // the process is exiting, which receive will notice
		err = p.receive(ctx, &a)
	}
	switch {
	case err == nil && a.Error != "":
		err = errors.New(a.Error)
	case err != nil && p.over():
		err = fmt.Errorf("%w; %s", err, p.said())
	}
	if err != nil {
		return answer{}, fmt.Errorf("envtest: %s: %w", command, err)
	}
	return a, nil
}
