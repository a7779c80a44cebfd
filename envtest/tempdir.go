package envtest

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// What the temporary directories of servers are called, and the file in each that the
// process that has made it holds locked as long as it lives.
const (
	tempPrefix = "millrace-envtest-"
	ownerFile  = "owner"
)

// abandonedAfter is how old a temporary directory without a living owner must be to be
// removed: somebody may still want its log.
const abandonedAfter = time.Hour

// newTempDir makes the temporary directory of a server. Call release when it is gone.
func newTempDir() (dir string, release func(), err error) {
	removeAbandoned()
	if dir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return "", nil, err
	}
	if release, err = tryLock(filepath.Join(dir, ownerFile), os.O_CREATE); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	if release == nil { // it is too young for others to look at
		return "", nil, errors.Join(errors.New("another process has locked "+dir), os.RemoveAll(dir))
	}
	return dir, release, nil
}

// removeAbandoned removes the temporary directories of processes that have died before
// they could stop their server, such as by a test's time limit. It is housekeeping: what
// cannot be removed stays.
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
