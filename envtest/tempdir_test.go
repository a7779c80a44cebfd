package envtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The directory for temporary files is shared with other users. A link in place of the
// owner file is not followed, and a file that disappears is not created.
func TestALockFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(t.TempDir(), "victim"), filepath.Join(dir, ownerFile)
	require.NoError(t, os.Symlink(victim, link))
	for _, create := range []int{0, os.O_CREATE} {
		unlock, err := tryLock(link, create)
		require.Error(t, err)
		require.Nil(t, unlock)
	}
	_, err := tryLock(filepath.Join(dir, "gone"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoFileExists(t, victim)
}

func TestAbandonedDirectoriesAreRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for name, age := range map[string]time.Duration{"old": 2 * abandonedAfter, "young": 0} {
		dir := filepath.Join(tmp, tempPrefix+name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ownerFile), nil, 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(dir, ownerFile), then, then))
	}
	removeAbandoned()
	require.NoDirExists(t, filepath.Join(tmp, tempPrefix+"old"))
	require.DirExists(t, filepath.Join(tmp, tempPrefix+"young"))
}
