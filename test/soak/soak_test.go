package soak

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/jitter"
)

var (
	days    = flag.Int("days", 4, "how many days TestDaysAreSimilar runs")
	length  = flag.Duration("day", 20*time.Minute, "the length of a day")
	objects = flag.Int("objects", 100, "how many Pods there are")
	changes = flag.Int("changes", 100, "how many changes there are on a day")
	heaps   = flag.String("heaps", "", "write the heap of each midnight into this `directory`, for go tool pprof -base")
)

// TestDaysAreSimilar runs a program, and compares its resources at the end of each day.
func TestDaysAreSimilar(t *testing.T) {
	if *days < 1 || *length <= 0 || *objects < 1 || *changes < 0 {
		t.Fatalf("-days is %d, -day %s, -objects %d and -changes %d: want a day, a length and an object at least", *days, *length, *objects, *changes)
	}
	defer jitter.Seed(1)()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, *objects)
		c.start()
		var held []holding
		for day := range *days {
			c.day(*length, *changes)
			c.midnight(day)
			held = append(held, c.hold())
			fmt.Printf("day %d: %s\n", day+1, held[day])
			c.keepHeap(day)
		}
		c.stop()
		if len(held) > settled {
			held = held[len(held)/3:]
		}
		for _, what := range grown(held) {
			t.Error(what)
		}
		fmt.Printf("%d days, %d requests, %d changes, %d reconciles, %d terms\n", *days, c.srv.Stats().Requests("", ""), c.changes, c.reconciles.Load(), c.terms.Load())
		require.Positive(t, c.terms.Load())
	})
}
