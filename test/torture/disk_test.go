package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/millrace-dev/millrace/rest"
)

// room is the size of the file system of etcd's data: enough for its logs, 64 MB each, and three
// times its quota.
const room = 1 << 30

// disk is a file system of limited size.
type disk struct {
	root    *os.File
	missing error // the reason, if there is no disk
}

// mountDisk mounts a disk at a path until the test ends, if the process may.
func mountDisk(t *testing.T, path string) disk {
	t.Helper()
	root, err := mount(room)
	if err != nil {
		return disk{missing: fmt.Errorf("make a file system of limited size: %w", err)}
	}
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	d := disk{root: root}
	require.NoError(t, os.Symlink(d.path(), path))
	return d
}

// path returns a path to the disk, valid while this process lives.
func (d disk) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), d.root.Fd()) }

// ballast is the file that fills the disk.
func (d disk) ballast() string { return filepath.Join(d.path(), "ballast") }

// fill writes until there is no room for another byte.
func (d disk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0 && err == nil; {
		if _, err = f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size, err = size/2, nil
		}
	}
	return errors.Join(err, f.Close())
}

// empty frees the space.
func (d disk) empty() error { return os.Remove(d.ballast()) }

// diskEpisodes are the episodes with a full file system of etcd's data.
var diskEpisodes = []episode{
	{"the disk of etcd is full", true, func(w *world, ctx context.Context) {
		w.must(w.disk.fill())
		// Writes use the remaining room in files that are already allocated. When it is used up,
		// etcd ends.
		revisions := rest.ResourceFor[*appsv1.ControllerRevision](w.direct[0]).Namespace("default")
		answer := until(patience, func() string {
			_, err := revisions.Create(ctx, large(0), metav1.CreateOptions{})
			if conn, refused := net.Dial("tcp", w.etcd.URL[len("http://"):]); refused == nil {
				_ = conn.Close() // nothing was sent on it
				return fmt.Sprintf("etcd goes on though the disk is full; the last write: %v", err)
			}
			return ""
		})
		if _, err := w.etcd.Compact(ctx); answer == "" && (err == nil || !strings.Contains(err.Error(), "no space left on device")) {
			answer = fmt.Sprintf("etcd has ended, but not for want of space: %v", err)
		}
		if answer != "" {
			w.complain("%s", answer)
		}
		w.electorsSay(`no answer|deadline|etcd`)
		w.controllerSays(`no answer|deadline|etcd`)
		w.must(w.disk.empty())
		w.must(w.etcd.Restart(ctx))
		empty(w, ctx)
	}},
}
