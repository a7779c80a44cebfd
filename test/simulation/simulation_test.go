package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	first = flag.Uint64("from", 0, "the first seed that TestSchedules plays")
	count = flag.Int("schedules", 150, "how many seeds TestSchedules plays")
	file  = flag.String("schedule", "", "play the schedule in this JSON `file`, and tell what happens")
	seed  = flag.Int64("seed", -1, "play the schedule of this seed alone, and tell what happens")
)

// hang is how long one schedule may take on a slow machine before it counts as hanging. Most take
// less than a tenth of a second.
var hang = flag.Duration("hang", 2*time.Minute, "after how long a schedule is said not to end")

// TestSchedules plays one schedule after the other.
func TestSchedules(t *testing.T) {
	if *seed >= 0 {
		alone(t, Draw(uint64(*seed)))
		return
	}
	if *file != "" {
		text, err := os.ReadFile(*file)
		require.NoError(t, err)
		var s Schedule
		require.NoError(t, json.Unmarshal(text, &s))
		alone(t, s)
		return
	}
	var total Played
	for n := range *count {
		at := *first + uint64(n)
		dog := time.AfterFunc(*hang, func() { panic(fmt.Sprintf("seed %d does not end", at)) })
		fmt.Println("seed", at)
		r := Play(t, Draw(at))
		dog.Stop()
		total.Add(Played{1, r.Steps, r.Requests, r.Events, r.Took})
		if len(r.Broken) > 0 {
			t.Fatalf("seed %d: %s\nalone: go -C test/simulation test -run TestSchedules -v -args -seed %d", at, strings.Join(r.Broken, "\n\t"), at)
		}
		if t.Failed() {
			t.Fatalf("seed %d failed", at)
		}
	}
	text, err := json.Marshal(total)
	require.NoError(t, err)
	fmt.Printf("played %s\n", text)
}

// alone plays s and prints what happens.
func alone(t *testing.T, s Schedule) {
	t.Logf("%s", s)
	r := run(t, s, true)
	for _, line := range r.Trace {
		fmt.Println(line)
	}
	for _, b := range r.Broken {
		t.Error(b)
	}
}
