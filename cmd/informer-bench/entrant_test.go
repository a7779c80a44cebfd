package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

func namesOf(entrants []entrant) (names []string) {
	for _, e := range entrants {
		names = append(names, e.name)
	}
	return names
}

func TestRevisionsAreEntrants(t *testing.T) {
	chosen, err := scenario.Choose([]string{"workqueue"})
	require.NoError(t, err)
	got, err := enter(chosen, []string{"floor", "client-go", "millrace@v1", "millrace", "millrace@v0"})
	require.NoError(t, err)
	require.Equal(t, []string{"millrace@v1", "millrace", "millrace@v0", "client-go"}, namesOf(got), "the floor has no work queue")
	require.Equal(t, entrant{name: "millrace@v1", contestant: results.Millrace, revision: "v1"}, got[0])
	require.False(t, paired(got))
	require.True(t, paired(got[:3]))
	require.False(t, paired(got[:1]))
	var against [][]string
	for _, p := range pairs(got) {
		against = append(against, namesOf(p[:]))
	}
	require.Equal(t, [][]string{{"millrace@v1", "millrace"}, {"millrace@v1", "millrace@v0"}}, against, "the first that was asked for is held against the others")

	got, err = enter(chosen, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"millrace", "client-go"}, namesOf(got))
	require.Empty(t, pairs(got))

	for _, wrong := range []string{"nobody", "nobody@main", "millrace@", ""} {
		_, err := enter(chosen, []string{wrong})
		require.ErrorContains(t, err, "contestant", wrong)
	}
	_, err = enter(chosen, []string{"millrace@main", "millrace@main"})
	require.ErrorContains(t, err, "twice")
}
