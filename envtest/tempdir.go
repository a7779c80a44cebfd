package envtest

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// The prefix of temporary directories, and the file in each of them that its owner keeps locked.
const (
	tempPrefix = "millrace-envtest-"
	ownerFile  = "owner"
)

// abandonedAfter is the age after which an abandoned temporary directory is removed. Until then its log may
// still be needed.
const abandonedAfter = time.Hour

// newTempDir creates a server's temporary directory. Call release after removing the directory.
func newTempDir() (dir string, release func(), err error) {
	removeAbandoned()
	if dir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return "", nil, err
	}
	if release, err = tryLock(filepath.Join(dir, ownerFile), os.O_CREATE); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	if release == nil { // cannot happen: the directory is too young for removeAbandoned
		return "", nil, errors.Join(errors.New("locked by another process: "+dir), os.RemoveAll(dir))
	}
	return dir, release, nil
}

// removeAbandoned removes the temporary directories of processes that died without stopping their server,
// such as tests that timed out. It ignores errors.
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
