package simulation

import (
	"os"
	"slices"
	"testing"
	"time"
)

// snapshotInterval is how often an informer with snapshots writes them, so that a play has
// several.
const snapshotInterval = 20 * time.Second

// snapshotsIn returns an empty directory for the snapshots of a play, in memory where there
// is a place for that; none where the play has none.
func snapshotsIn(t *testing.T, s Schedule) string {
	t.Helper()
	if !slices.ContainsFunc(s.World.Informers, func(f Form) bool { return f.Snapshots }) {
		return ""
	}
	in := "/dev/shm"
	if info, err := os.Stat(in); err != nil || !info.IsDir() {
		in = ""
	}
	dir, err := os.MkdirTemp(in, "simulation")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
