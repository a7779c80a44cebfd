//go:build unix

package envtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mute is a server whose program becomes ready and then never answers commands.
func mute(t *testing.T) *Server {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	script := "#!/bin/sh\ncd " + dir + "\nif [ -e silent ]; then touch begun; else echo '{}'; fi\nwhile read line; do :; done\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
	s := &Server{what: "the API server", program: program, dir: dir, Log: filepath.Join(dir, "server.log"), talk: newTurn(), users: newTurn()}
	_, err := s.start(t.Context())
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	return s
}

// quickly fails the test if something takes longer than the shortest timeout of the
// package.
func quickly(t *testing.T, what string, do func()) {
	t.Helper()
	began := time.Now()
	do()
	require.Less(t, time.Since(began), stopTimeout/2, what)
}

// underWay starts a call and returns when it holds the turn. The channel receives the
// call's result.
func underWay(s *Server, call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	for len(s.talk) == 0 {
		time.Sleep(time.Millisecond)
	}
	return ended
}

// A slow command or start does not block calls that end the server, and then ends too.
func TestSlowCommandDoesNotBlockStopAndKill(t *testing.T) {
	for name, end := range map[string]func(s *Server){
		"kill": (*Server).Kill,
		"stop": func(s *Server) { _ = s.Stop() },
		"suspend and kill": func(s *Server) {
			require.NoError(t, s.Suspend())
			s.Kill()
		},
	} {
		for what, call := range map[string]func(s *Server) error{
			"compact":    func(s *Server) error { _, err := s.Compact(t.Context()); return err },
			"defragment": func(s *Server) error { return s.Defragment(t.Context()) },
			"start the API server": func(s *Server) error {
				if err := os.WriteFile(filepath.Join(s.dir, "silent"), nil, 0o600); err != nil {
					return err
				}
				return s.Restart(t.Context())
			},
		} {
			s := mute(t)
			ended := underWay(s, func() error { return call(s) })
			if strings.HasPrefix(what, "start") {
				awaitFile(t, filepath.Join(s.dir, "begun"))
			}
			quickly(t, name+" while "+what, func() { end(s) })
			err := <-ended
			require.ErrorContains(t, err, "envtest: "+what+": the process exited: ", name)
			s.Kill()
		}
	}
}

func awaitFile(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, await(t.Context(), name+" is there", func(context.Context) (bool, error) {
		_, err := os.Stat(name)
		return err == nil, nil
	}))
}

// Waiting for another caller's command can be given up. A suspended server is not
// waited for.
func TestWaitForAnotherCommandCanBeCancelled(t *testing.T) {
	s := mute(t)
	ended := underWay(s, func() error { _, err := s.Compact(t.Context()); return err })
	calls := map[string]func(ctx context.Context) error{
		"defragment": s.Defragment,
		"install objects": func(ctx context.Context) error {
			return s.Install(ctx, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}})
		},
		"add user":        func(ctx context.Context) error { _, err := s.AddUser(ctx, User{Name: "ann"}); return err },
		"restart the API": s.Restart,
	}
	for what, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, what)
		require.ErrorContains(t, err, what)
		require.ErrorContains(t, err, "wait for a start or command in progress")
	}
	require.NoError(t, s.Suspend())
	delete(calls, "restart the API") // which resumes it
	for what, call := range calls {
		require.ErrorContains(t, call(t.Context()), "call Resume first", what)
	}
	s.Kill()
	require.Error(t, <-ended)
}

// A server that has crashed is not running, and can be started again.
func TestRestartAfterACrash(t *testing.T) {
	s := mute(t)
	require.NoError(t, s.proc.cmd.Process.Kill())
	<-s.proc.done
	require.ErrorContains(t, s.Install(t.Context()), "the process exited")
	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, s.Install(t.Context()))
	require.NoError(t, s.Stop())
}

// Like copies keys only to a directory with none or the same ones.
func TestLikeOverwritesNoKeys(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	files := []string{"ca.crt", "ca.key", "sa.key", "tokens.csv"}
	for _, name := range files {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte("one "+name), 0o600))
	}
	require.NoError(t, copyKeys(from, to))
	require.NoError(t, copyKeys(from, to), "the same again")
	require.NoError(t, os.Remove(filepath.Join(to, "ca.crt")))
	require.NoError(t, os.WriteFile(filepath.Join(to, "tokens.csv"), []byte("another"), 0o600))
	err := copyKeys(from, to)
	require.EqualError(t, err, filepath.Join(to, "tokens.csv")+" exists and differs from that of the server in "+from+": leave out Options.Like, or choose another Dir")
	require.NoFileExists(t, filepath.Join(to, "ca.crt"), "nothing is copied")
}

// A directory can be used by the same minor version and the next one.
func TestDirectoriesOfOtherVersions(t *testing.T) {
	now, err := minor()
	require.NoError(t, err)
	name := func(version int) string { return fmt.Sprintf("1.%d", version) }
	s := Start(t, Options{Dir: t.TempDir()})
	newCaller(t, s, s.AdminToken).call(http.StatusCreated, http.MethodPost, configMaps, configMap("kept"))
	require.NoError(t, s.Stop())
	text, err := os.ReadFile(filepath.Join(s.dir, versionFile))
	require.NoError(t, err)
	require.Equal(t, name(now)+"\n", string(text))

	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, versionFile), []byte(text), 0o600))
	}
	for was, want := range map[string]string{
		name(now + 1): "envtest: start the API server: the last server in " + s.dir + " was Kubernetes " + name(now+1) + ", but this is " + name(now) + ": an older version may not read the data of a newer one: set MILLRACE_KUBERNETES=" + name(now+1),
		name(now - 2): "is upgraded by one minor version at a time, so " + name(now-1) + " comes first: set MILLRACE_KUBERNETES=" + name(now-1) + ", or choose another directory",
		"":            "contains no Kubernetes version: remove it",
		"2.36":        "contains no Kubernetes version: remove it",
	} {
		write(was)
		_, err := Launch(t.Context(), Options{Dir: s.dir})
		require.ErrorContains(t, err, want)
	}
	write(name(now - 1))
	s = Start(t, Options{Dir: s.dir})
	newCaller(t, s, s.AdminToken).call(http.StatusOK, http.MethodGet, configMaps+"/kept", nil)
	text, err = os.ReadFile(filepath.Join(s.dir, versionFile))
	require.NoError(t, err)
	require.Equal(t, name(now)+"\n", string(text), "from now on")

	t.Setenv(versionVariable, "1.37")
	now, err = minor()
	require.NoError(t, err)
	require.Equal(t, 37, now)
}

// The version advised in the error for a directory exists.
func TestSuggestedVersionsExist(t *testing.T) {
	all := parse(program).minors()
	advised := regexp.MustCompile(versionVariable + `=([0-9.]+)`)
	dir := t.TempDir()
	seen := map[string]bool{}
	for _, running := range all {
		t.Setenv(versionVariable, running)
		now, err := minor()
		require.NoError(t, err)
		for before := now - 4; before < now+4; before++ {
			require.NoError(t, keepVersion(dir, before))
			err := checkVersion(dir, now)
			if before == now || before == now-1 {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, "choose another directory")
			if set := advised.FindStringSubmatch(err.Error()); set != nil {
				require.Contains(t, all, set[1])
				seen[set[1]] = true
			}
		}
	}
	require.Len(t, seen, len(all), "each one is advised somewhere")
}

// An incomplete event is left out, and after a crash the next event starts on a new
// line.
func TestATornAuditLog(t *testing.T) {
	s := &Server{AuditLog: filepath.Join(t.TempDir(), "audit.log")}
	require.NoError(t, s.endLine(), "there is none yet")
	const whole = `{"verb": "get"}` + "\n" + `{"verb": "list"}` + "\n"
	verbs := func() (all []string) {
		events, err := s.AuditEvents()
		require.NoError(t, err)
		for _, e := range events {
			all = append(all, e.Verb)
		}
		return all
	}
	for _, torn := range []string{"", "{", `{"verb": "watch"}`, `{"verb": "` + strings.Repeat("x", 200<<10)} {
		require.NoError(t, os.WriteFile(s.AuditLog, []byte(whole+torn), 0o600))
		require.Equal(t, []string{"get", "list"}, verbs())
		require.NoError(t, s.endLine())
		f, err := os.OpenFile(s.AuditLog, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(`{"verb": "create"}` + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, []string{"get", "list", "create"}, verbs())
	}
	require.NoError(t, os.WriteFile(s.AuditLog, []byte("{"), 0o600))
	require.NoError(t, s.endLine())
	require.Empty(t, verbs())
}

// The audit log is a single file, or else AuditEvents would miss earlier events. A flag
// of the caller comes later and so takes effect.
func TestTheAuditLogIsOneFile(t *testing.T) {
	const own = "--audit-log-maxsize=5"
	s := &Server{dir: t.TempDir(), args: Options{Flags: []string{own}, Gates: map[string]bool{"X": true}}.args()}
	require.NoError(t, s.auditTo(AuditMetadata))
	i, j := slices.Index(s.args, "--audit-log-maxsize=1000000"), slices.Index(s.args, own)
	require.Less(t, slices.Index(s.args, "--"), i, s.args)
	require.Less(t, i, j, s.args)
}
