package envtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Contradictory options are rejected before a build.
func TestContradictoryOptions(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without the go command nothing can be built
	for want, o := range map[string]Options{
		"Options.Port must be 1 to 65535, or 0 for a free port, got -1":              {Port: -1},
		"Options.Port must be 1 to 65535, or 0 for a free port, got 65536":           {Port: 65536},
		"Options.Quota must be positive, or 0 for etcd's default, got -1":            {Quota: -1},
		`Options.Audit must be Metadata, Request or RequestResponse, got "metadata"`: {Audit: "metadata"},
		`Options.Etcd contains "127.0.0.1:2379": specify a URL`:                      {Etcd: "127.0.0.1:2379"},
		`Options.Etcd contains ""`:                                                   {Etcd: "http://127.0.0.1:2379,"},
		"leave out OnlyEtcd and Quota":                                               {Etcd: "http://127.0.0.1:2379", Quota: 1 << 20},
		"leave out Files, Objects, Audit and Like":                                   {OnlyEtcd: true, Files: []string{"x"}},
		"leave out Flags and Gates, or OnlyEtcd":                                     {OnlyEtcd: true, Flags: []string{"--v=4"}},
		"Options.Flags contains --secure-port=1: use Options.Port":                   {Flags: []string{"--v=4", "--secure-port=1"}},
		"Options.Flags contains --etcd-servers: use Options.Etcd":                    {Flags: []string{"--etcd-servers", "http://127.0.0.1:2379"}},
		"leave out Options.Audit to configure your own audit":                        {Flags: []string{"--audit-log-path=x"}, Audit: AuditMetadata},
	} {
		_, err := Launch(t.Context(), o)
		require.ErrorContains(t, err, "envtest: ")
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Options{}.check())
	require.NoError(t, Options{Etcd: "http://127.0.0.1:1,https://[::1]:2", Port: 65535, Flags: []string{"--audit-log-path=x"}}.check())
}

// A start that cannot succeed fails soon, and its error begins with the cause.
func TestFailedStartsNameTheCause(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	_, err := Build(t.Context())
	require.NoError(t, err)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "audit.log"), 0o700))
	for want, o := range map[string]Options{
		"kube-apiserver exited before it was ready: unknown flag: --no-such-flag": {Flags: []string{"--no-such-flag"}},
		"no administrator access to kube-apiserver: GET https://":                 {Flags: []string{"--token-auth-file=" + emptyFile(t)}},
		"audit.log: is a directory":                                               {Dir: dir, Audit: AuditMetadata},
		`no etcd responds: Get "http://127.0.`:                                    {Etcd: "http://" + silent.Addr().String()},
		"unrecognized feature gate: Nonsense":                                     {Gates: map[string]bool{"Nonsense": true}},
	} {
		began := time.Now()
		_, err := Launch(t.Context(), o)
		require.Error(t, err, want)
		first, _, _ := strings.Cut(err.Error(), "; its log ends with:")
		require.Contains(t, first, "envtest: start the API server: ")
		require.Contains(t, first, want)
		require.Less(t, time.Since(began), startTimeout/3, want)
	}
}

func emptyFile(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	return name
}

// If the disk is full, so that the log cannot be written either, the error says so, and
// no incomplete file is left that could be taken for a complete one.
func TestAFullDiskIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the real API server")
	}
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("cannot make a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", disk).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	_, err := Launch(t.Context(), Options{Dir: filepath.Join(disk, "a")})
	require.ErrorContains(t, err, "start the API server: start etcd in "+filepath.Join(disk, "a", "etcd")+": failed to create WAL")
	require.ErrorContains(t, err, "no space left on device")

	f, err := os.Create(filepath.Join(disk, "fill"))
	require.NoError(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1024))
	}
	dir := filepath.Join(disk, "b")
	_, err = Launch(t.Context(), Options{Dir: dir})
	require.ErrorContains(t, err, "no space left on device")
	for _, pattern := range []string{"*.key", "*.crt", "*.csv", "port"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, name := range names {
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.NotZero(t, info.Size(), "%s is half written", name)
		}
	}
}

// Calls to a suspended server fail immediately, and it can be stopped like any other.
func TestASuspendedServerIsNotAsked(t *testing.T) {
	s := Start(t, Options{})
	require.NoError(t, s.Suspend())
	for what, ask := range map[string]func() error{
		"compact":  func() error { _, err := s.Compact(t.Context()); return err },
		"add user": func() error { _, err := s.AddUser(t.Context(), User{Name: "ann"}); return err },
		"install": func() error {
			return s.Install(t.Context(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}})
		},
	} {
		err := ask()
		require.ErrorContains(t, err, "envtest: "+what)
		require.ErrorContains(t, err, "the server is suspended: call Resume first")
	}
	require.NoError(t, s.Restart(t.Context()), "it goes on, so that it can end")
	_, err := s.Compact(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Suspend())
	require.NoError(t, s.Stop())
}

// Calls to a server that has ended return an error that says how it ended.
func TestAServerThatHasEndedSaysSo(t *testing.T) {
	s := Start(t, Options{})
	require.NoError(t, s.proc.cmd.Process.Signal(syscall.SIGABRT)) // a crash, which it logs
	<-s.proc.done
	const ended = "the process exited: exit status 2; its log contains:\nSIGABRT: abort\n"
	_, err := s.AddUser(t.Context(), User{Name: "ann"})
	require.ErrorContains(t, err, ended)
	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, s.proc.cmd.Process.Signal(syscall.SIGABRT))
	for err = nil; err == nil; { // it may answer until the signal arrives
		_, err = s.Compact(t.Context())
	}
	require.ErrorContains(t, err, ended, "it is asked while it ends")
	s.Kill()
	_, err = s.AddUser(t.Context(), User{Name: "ann"})
	require.ErrorContains(t, err, "the server is not running")
	require.NoError(t, s.Stop())

	const gone = "it was stopped, which removed its temporary directory: use Kill"
	require.ErrorContains(t, s.Restart(t.Context()), gone)
	_, err = s.AddUser(t.Context(), User{Name: "ann"})
	require.ErrorContains(t, err, gone)
	_, err = s.Compact(t.Context())
	require.ErrorContains(t, err, gone)
	_, err = s.Webhook()
	require.ErrorContains(t, err, gone)
	_, err = Launch(t.Context(), Options{Like: s})
	require.ErrorContains(t, err, "copy the keys from another server: "+gone)
}

// An API server whose etcd has died ends.
func TestAnAPIServerEndsWithoutItsEtcd(t *testing.T) {
	etcd := Start(t, Options{OnlyEtcd: true})
	one, two := Start(t, Options{Etcd: etcd.URL}), Start(t, Options{Etcd: etcd.URL})
	etcd.Kill()
	require.NoError(t, one.Stop())
	require.NoDirExists(t, one.dir)
	_, err := Launch(t.Context(), Options{Etcd: etcd.URL})
	require.ErrorContains(t, err, "no etcd responds: ")
	require.NoError(t, etcd.Restart(t.Context()))
	require.NoError(t, etcd.Suspend())
	require.NoError(t, two.Stop())
}

// The temporary directories of dead processes are removed after a while, and no others.
func TestAbandonedDirectoriesGo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dirs := map[string]string{}
	for _, name := range []string{"living", "young", "dead"} {
		dir, release, err := newTempDir()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), nil, 0o600))
		if name == "living" {
			defer release()
		} else {
			release()
		}
		if name != "young" {
			then := time.Now().Add(-2 * abandonedAfter)
			require.NoError(t, os.Chtimes(filepath.Join(dir, ownerFile), then, then))
		}
		dirs[name] = dir
	}
	foreign, err := os.MkdirTemp("", tempPrefix)
	require.NoError(t, err)
	_, release, err := newTempDir()
	require.NoError(t, err)
	release()
	require.NoDirExists(t, dirs["dead"])
	for _, dir := range []string{dirs["living"], dirs["young"], foreign} {
		require.DirExists(t, dir)
	}
}
