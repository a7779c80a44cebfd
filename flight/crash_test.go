package flight

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPanicGoesOnAfterTheDump(t *testing.T) {
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
	func() { defer r.DumpOnPanic() }()
	require.Empty(t, to.String())
}

// A process that ends by a panic or by SIGQUIT leaves what happened before, and the stacks.
func TestTheLastWordsOfAProcess(t *testing.T) {
	if how := os.Getenv("FLIGHT_TEST_END"); how != "" {
		end(how)
		return
	}
	for how, stack := range map[string]string{"panic": "panic: oh", "quit": "SIGQUIT: quit"} {
		if how == "quit" && runtime.GOOS == "windows" {
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
		if how == "panic" {
			require.Contains(t, words, "the last 200 events; 801 older ones are not here")
		}
	}
}

// end ends the process.
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
	quit(os.Stderr)
	time.Sleep(time.Minute)
	fmt.Println("still alive")
}
