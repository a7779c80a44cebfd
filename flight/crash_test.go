package flight

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPanicContinuesAfterTheDump(t *testing.T) {
	r := New(DefaultSize)
	track := r.Track(Label{Role: Informer, Name: "pods"})
	var to bytes.Buffer
	r.CrashTo(&to)
	require.PanicsWithValue(t, "oh", func() {
		defer r.DumpOnPanic()
		track.Record(&Event{Kind: Turned, Outcome: "Watching"})
		panic("oh")
	})
	require.Contains(t, to.String(), "informer pods: turned Watching")
	to.Reset()
	require.NotPanics(t, func() { defer r.DumpOnPanic() })
	require.Empty(t, to.String())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Whatever the writer does, the original panic continues.
func TestBlockedWriterDoesNotDelayACrash(t *testing.T) {
	var blocked chan struct{}
	for name, write := range map[string]writerFunc{
		"panics": func([]byte) (int, error) { panic("the writer's own") },
		"exits":  func([]byte) (int, error) { runtime.Goexit(); return 0, nil },
		"fails":  func([]byte) (int, error) { return 0, os.ErrClosed },
		"nil":    nil,
		"blocks": func([]byte) (int, error) { <-blocked; return 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blocked = make(chan struct{})
				defer close(blocked)
				r := New(DefaultSize)
				r.CrashTo(write)
				began := time.Now()
				require.PanicsWithValue(t, "oh", func() {
					defer r.DumpOnPanic()
					panic("oh")
				})
				require.LessOrEqual(t, time.Since(began), patience)
			})
		})
	}
}

// Two concurrent crashes write one after the other.
func TestTwoCrashesAtATime(t *testing.T) {
	r := New(DefaultSize)
	track := r.Track(Label{Name: "pods"})
	track.Record(&Event{Kind: Marked})
	var to bytes.Buffer
	r.CrashTo(&to)
	var both sync.WaitGroup
	for range 2 {
		both.Go(r.Crashing)
	}
	both.Wait()
	require.Equal(t, 2, strings.Count(to.String(), "the last 1 events"), to.String())
	runtime.KeepAlive(track)
}

// A process that ends by a panic or by SIGQUIT writes its last events and the stacks.
func TestTheLastWordsOfAProcess(t *testing.T) {
	if how := os.Getenv("FLIGHT_TEST_END"); how != "" {
		end(how)
		return
	}
	for how, stack := range map[string]string{"panic": "panic: oh", "quit": "SIGQUIT: quit", "quit nil": "SIGQUIT: quit"} {
		if how != "panic" && runtime.GOOS == "windows" {
			continue
		}
		cmd := exec.Command(os.Args[0], "-test.run", "^TestTheLastWordsOfAProcess$")
		cmd.Env = append(os.Environ(), "FLIGHT_TEST_END="+how)
		said, err := cmd.CombinedOutput()
		require.Error(t, err)
		words, stacks, found := strings.Cut(string(said), stack)
		require.True(t, found, string(said))
		require.Contains(t, words, "informer pods: turned Watching")
		require.Contains(t, stacks, "goroutine ")
		if how != "panic" {
			require.Contains(t, words, "queue slow: marked", "another recorder has the time to write")
		} else {
			require.Contains(t, words, "the last 200 events; 801 older ones omitted")
		}
	}
}

func end(how string) {
	track := Process().Track(Label{Role: Informer, Name: "pods"})
	for range 1000 {
		track.Record(&Event{Kind: Marked})
	}
	track.Record(&Event{Kind: Turned, Outcome: "Watching"})
	if how == "panic" {
		defer Process().DumpOnPanic()
		panic("oh")
	}
	if how == "quit" {
		quit(os.Stderr)
	} else {
		quit(nil)
	}
	time.Sleep(time.Minute)
	fmt.Println("still alive")
}
