package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// scripted returns an entrant that is a shell script. It can call ready, mark NAME
// and result TEXT.
func scripted(t *testing.T, body string) entrant {
	if runtime.GOOS != "linux" {
		t.Skip("clocks are read in the way of Linux")
	}
	path := filepath.Join(t.TempDir(), "contestant")
	require.NoError(t, os.WriteFile(path, []byte(`#!/bin/sh
ready() { echo '{"event":"ready"}'; read start; }
mark() { echo '{"event":"mark","name":"'$1'"}'; read go; }
result() { echo '{"event":"result","result":'$1'}'; }
`+body), 0o700))
	return entrant{name: "scripted", contestant: results.Millrace, program: path}
}

func job(t *testing.T, name string) scenario.Job {
	chosen, err := scenario.Choose([]string{name})
	require.NoError(t, err)
	return chosen[0].Jobs(100)[0]
}

func TestFailedContestantIsNamedWithTheReason(t *testing.T) {
	const silent = `took too long: scripted ended early: scripted: signal: killed: cannot list`
	for what, c := range map[string]struct{ script, says string }{
		"ends without a word":       {"", "scripted ended early: exit status 0"},
		"fails":                     {"ready; echo no luck >&2; exit 3", "scripted ended early: scripted: exit status 3: no luck"},
		"prints garbage":            {"echo hello", `scripted said "hello"`},
		"prints an endless line":    {"yes | tr '\\n' y", "read from scripted: bufio.Scanner: token too long"},
		"hangs":                     {"ready; echo cannot list >&2; exec sleep 600", silent},
		"hangs after its result":    {`ready; mark begin; mark done; result '{"objects":0}'; exec sleep 600`, "took too long: scripted: signal: killed"},
		"sets a mark twice":         {"ready; mark begin; mark begin", `set the mark "begin" twice`},
		"has no mark":               {`ready; result '{"objects":100}'`, `did not set the mark "begin"`},
		"says what it did not read": {`ready; mark begin; mark done; result '{"digest":"7 or so"}'`, "read a digest"},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if strings.Contains(c.script, "sleep") {
				defer time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("took too long")) }).Stop()
			}
			ours := &contest{rounds: 1, progress: io.Discard, entrants: []entrant{scripted(t, c.script)}}
			_, _, err := ours.run(ctx, job(t, "workqueue"))
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "%!")
		})
	}
}

func TestInvalidFigures(t *testing.T) {
	at := time.Now()
	o := &outcome{listed: at, marks: map[string]reading{"synced": {at: at}, "done": {at: at.Add(time.Second)}}}
	_, err := measure(job(t, "relist-unchanged"), o)
	require.ErrorContains(t, err, "peak_over_steady is NaN")
	o.marks["done"] = reading{at: at}
	j := job(t, "latency")
	_, err = measure(j, o)
	require.ErrorContains(t, err, "not a valid duration")
}

// A contestant is abandoned if its server does not answer.
func TestAServerThatHangs(t *testing.T) {
	p, err := launch(t.Context(), "the load server", scripted(t, "sleep 600").program)
	require.NoError(t, err)
	defer p.kill()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("took too long")) }).Stop()
	server := &loadServer{process: p}
	_, err = (&contest{}).one(ctx, job(t, "sync-protobuf"), scripted(t, "ready; sleep 600"), server)
	require.ErrorContains(t, err, "took too long: read from the load server")
}

// A single contestant has no results to agree with.
func TestIncompleteCache(t *testing.T) {
	p, err := launch(t.Context(), "the load server", scripted(t, `while read order; do echo '{"lists":1}'; done`).program)
	require.NoError(t, err)
	defer p.kill()
	for objects, says := range map[string]string{"0": "has 0 objects at the end, want 100", "99": "has 99 objects", "100": ""} {
		e := scripted(t, `ready; mark begin; mark synced; result '{"objects":`+objects+`}'`)
		_, err := (&contest{}).one(t.Context(), job(t, "sync-protobuf"), e, &loadServer{process: p})
		if says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

// A contestant that would not fit into memory is not started.
func TestContestantThatUsesTooMuchMemoryIsLeftOut(t *testing.T) {
	const gigabyte = 1_000_000_000
	large, small := entrant{contestant: results.ClientGo}, entrant{contestant: results.MillracePacked}
	j := scenario.Job{Scenario: scenario.Scenario{Takes: map[string]int{results.ClientGo: 20_000}}, Objects: 1_000_000}
	require.False(t, fits(j, large, 24*gigabyte))
	require.True(t, fits(j, large, 48*gigabyte))
	require.True(t, fits(j, large, 0), "not known")
	require.True(t, fits(j, small, gigabyte))
}
