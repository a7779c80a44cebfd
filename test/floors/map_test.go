package floors

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table in ARCHITECTURE.md shows the floors from the top to the ground.
func TestMapOfPackagesIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (?:top|\d+) \| ([^|]+) \| `)
	quoted := regexp.MustCompile("`([^`]+)`")
	var shown [][]string
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		var packages []string
		for _, name := range quoted.FindAllStringSubmatch(found[1], -1) {
			packages = append(packages, name[1])
		}
		shown = append(shown, packages)
	}
	slices.Reverse(shown)
	require.Equal(t, floors, shown)
}
