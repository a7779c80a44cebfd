package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/test/simulation"
)

// binary builds the simulation without the race detector, which randomizes the scheduler.
func binary(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "simulation.test")
	out, err := exec.Command("go", "test", "-c", "-o", file, "github.com/millrace-dev/millrace/test/simulation").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

func TestSimulate(t *testing.T) {
	file := binary(t)
	workshopOf := func(o options) *workshop {
		o.binary, o.hang = file, 2*time.Minute
		return &workshop{options: o, dir: t.TempDir(), began: time.Now(), next: o.from}
	}

	t.Run("counts what was played", func(t *testing.T) {
		w := workshopOf(options{runs: 25, from: 1000, workers: 2, block: 10})
		w.play(t.Context())
		require.Empty(t, w.broken)
		require.Equal(t, 25, w.total.Schedules)
		require.Positive(t, w.total.Events)
		require.Contains(t, w.summary(), "25 schedules from seed 1000 on")
	})

	t.Run("a play repeats", func(t *testing.T) {
		w := workshopOf(options{})
		for seed, played := uint64(0), 0; played < 12; seed++ {
			if !repeats(simulation.Draw(seed).World) {
				continue
			}
			played++
			first, err := w.child(t.Context(), "-test.v", "-seed", fmt.Sprint(seed))
			require.NoError(t, err, "%s", first)
			second, err := w.child(t.Context(), "-test.v", "-seed", fmt.Sprint(seed))
			require.NoError(t, err, "%s", second)
			require.Equal(t, events(first), events(second), "seed %d", seed)
			require.NotEmpty(t, events(first))
		}
	})

	t.Run("a step that nobody knows is found and shrunk", func(t *testing.T) {
		w := workshopOf(options{})
		s := simulation.Draw(1)
		s.Steps[3].Do = "nonsense"
		small := w.shrinkSchedule(t.Context(), s)
		require.Len(t, small.Steps, 1)
		require.Equal(t, simulation.Deed("nonsense"), small.Steps[0].Do)
	})

	t.Run("ends with its context", func(t *testing.T) {
		w := workshopOf(options{runs: 1_000_000, workers: 1, block: 1_000_000})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.play(ctx)
		require.Empty(t, w.broken)
	})
}

func TestABinaryThatIsNotThere(t *testing.T) {
	o := options{runs: 10, workers: 2, block: 5, hang: time.Minute, binary: "nothing.test"}
	err := run(t.Context(), o)
	require.ErrorContains(t, err, "run schedules: ")
	require.ErrorContains(t, err, "/nothing.test: no such file")
}

// repeats reports whether all starts in w happen at distinct times. The two informers of a
// controller, those of several namespaces and those of a factory start at the same time; files are
// read and written concurrently.
func repeats(w simulation.World) bool {
	for _, f := range w.Informers {
		if f.Namespaces != 0 || f.Snapshot {
			return false
		}
	}
	return !w.Reconciles && !w.Loans
}

// events returns the lines of a trace.
func events(said []byte) (all []string) {
	for line := range strings.Lines(string(said)) {
		if !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "ok") {
			all = append(all, line)
		}
	}
	return all
}

func TestScheduleWithoutAnEndIsRefused(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), options{workers: 1, block: 1}), "-runs N or -time D")
	require.ErrorContains(t, run(t.Context(), options{runs: 1}), "at least 1")
}
