package readme

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// budgets are the size limits for the archives of programs that use the library: a little more than
// their measured sizes, for the race detector. A generic function body is compiled again in each
// package that uses it, and would exceed the limit.
var budgets = map[string]int64{
	"examples/informer":  2_100_000,
	"examples/memcached": 8_200_000,
	"shard/membership":   5_100_000,
}

// A program compiles its own code, and not the stack again.
func TestAProgramDoesNotCompileTheStack(t *testing.T) {
	args := []string{"list", "-race", "-export", "-f", "{{.ImportPath}} {{.Export}}"}
	for name := range budgets {
		args = append(args, "./"+name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(out)) {
		name, archive, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimPrefix(name, "github.com/millrace-dev/millrace/")
		info, err := os.Stat(archive)
		require.NoError(t, err)
		found++
		require.LessOrEqual(t, info.Size(), budgets[name], "%s: put the body behind a type parameter below the surface (docs/design/types.md)", name)
	}
	require.Equal(t, len(budgets), found)
}
