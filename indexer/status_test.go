package indexer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Indexes counts the contents of an index and names its largest buckets.
func TestIndexesAreSeenFromOutside(t *testing.T) {
	x := New()
	byApp, _ := AddIndex(x, "app", func(o meta) []string { return append(apps(o), "any") })
	AddIndex(x, "none", func(meta) []int { return nil })
	for n := range 2500 {
		app := "few"
		if n%5 == 0 {
			app = fmt.Sprint("a", n)
		}
		set(x, obj("shop", fmt.Sprint("p", n), 1, app))
	}
	want := []IndexStatus{
		{Name: "app", Values: 502, Entries: 5000, Largest: []Bucket{{"any", 2500}, {"few", 2000}}},
		{Name: "none"},
	}
	require.Equal(t, want, ReaderOf[meta](x).Indexes(2))
	require.Equal(t, want, x.Reader().Indexes(2))
	require.Empty(t, ReaderOf[meta](x).Indexes(0)[0].Largest)
	byApp.Remove()
	require.Equal(t, want[1:], ReaderOf[meta](x).Indexes(2))
}
