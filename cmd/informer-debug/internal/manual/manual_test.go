package manual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Each command has a page, which does not depend on the date.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	root := &cobra.Command{Use: "wheel", Short: "Turn"}
	root.AddCommand(Command(), &cobra.Command{Use: "turn SPEED", Short: "Turn at a speed", Run: func(*cobra.Command, []string) {}})
	dir := filepath.Join(t.TempDir(), "pages")
	root.SetArgs([]string{"man", dir})
	require.NoError(t, root.Execute())
	page, err := os.ReadFile(filepath.Join(dir, "wheel-turn.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), "turn SPEED")
	require.Contains(t, string(page), `"Jan 1970"`)
	require.NoFileExists(t, filepath.Join(dir, "wheel-man.1"), "a hidden verb")
}
