package envtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A program built by another user, in a read-only place, is used as it is.
func TestProgramOfAnotherUserIsUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	name := filepath.Join(dir, "program")
	require.False(t, used(name))
	require.NoError(t, os.WriteFile(name, nil, 0o755))
	found := make(chan bool)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread must not be reused
		_, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, 65534, 0, 0)
		found <- errno == 0 && os.WriteFile(name, nil, 0o755) != nil && used(name)
	}()
	require.True(t, <-found)
}
