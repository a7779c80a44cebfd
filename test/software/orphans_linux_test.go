package main

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Processes that a suite leaves running are killed.
func TestOrphanedProcessesAreKilled(t *testing.T) {
	require.NoError(t, adopt())
	out, err := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!").Output()
	require.NoError(t, err)
	orphan, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	left, err := children()
	require.NoError(t, err)
	require.Equal(t, []int{orphan}, left)
	require.NoError(t, endOrphans())
	left, err = children()
	require.NoError(t, err)
	require.Empty(t, left)
}
