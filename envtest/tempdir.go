package envtest

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// The prefix of temporary directories, and the file in each that the owning process
// keeps locked.
const (
	tempPrefix = "millrace-envtest-"
	ownerFile  = "owner"
)

// abandonedAfter is the minimum age at which a temporary directory without an owner is removed. Until
// then its log may still be needed.
const abandonedAfter = time.Hour

// newTempDir creates the temporary directory of a server. Call release when the directory has been
// removed.
func newTempDir() (dir string, release func(), err error) {
	removeAbandoned()
	if dir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return "", nil, err
	}
	if release, err = tryLock(filepath.Join(dir, ownerFile), os.O_CREATE); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	if release == nil { // cannot happen, because the directory is too young for removeAbandoned
		return "", nil, errors.Join(errors.New("another process has locked "+dir), os.RemoveAll(dir))
	}
	return dir, release, nil
}

// removeAbandoned removes the temporary directories of processes that died before they
// stopped their server, for example at a test's time limit. It ignores errors.
func removeAbandoned() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		owner := filepath.Join(dir, ownerFile)
		info, err := os.Lstat(owner)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < abandonedAfter {
			continue
		}
		unlock, err := tryLock(owner, 0)
		if err != nil || unlock == nil {
			continue
		}
		_ = os.RemoveAll(dir)
		unlock()
	}
}
