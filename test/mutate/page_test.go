package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readDoc reads a document with its lines joined.
func readDoc(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(text)), " ")
}

// count returns a number in a document.
func count(t *testing.T, text, pattern string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	require.NotNil(t, found, "nothing says %q", pattern)
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n
}

// TestPageMatchesThePatches fails if the page is older than the patches. To update the page, see
// the documentation of this command.
func TestPageMatchesThePatches(t *testing.T) {
	all, err := readAll(patches)
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "..", "results", "breakages.md"))
	require.NoError(t, err)
	table, ok := strings.CutPrefix(string(page), pageHead)
	require.True(t, ok, "the page has another head")
	rows := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	bySchedules, soon := 0, 0
	schedule := regexp.MustCompile(`\| (?:(\d+) )?schedules?(?: of ` + "`[^`]+`" + ` of [a-z/]+)?, `)
	for n, p := range all {
		require.Less(t, n, len(rows), "the page has no row of %s", p.name)
		played := result{patch: p, found: true}
		if p.test.name == "" {
			after := schedule.FindStringSubmatch(rows[n])
			require.NotNil(t, after, "no schedule has found %s, where the page wants it: %s", p.name, rows[n])
			played.after, _ = strconv.Atoi(after[1]) // 0 if the schedules did not print the number
			_, rest, _ := strings.Cut(rows[n], after[0])
			played.complaint, _, _ = strings.Cut(rest, " |")
			bySchedules++
			if played.after > 0 && played.after <= 50 {
				soon++
			}
		}
		require.Equal(t, played.row(), rows[n])
	}
	require.Equal(t, len(all), len(rows), "the page has rows of what is no patch")

	reliability := readDoc(t, "docs", "reliability.md")
	require.Equal(t, len(all), count(t, reliability, `breaks the code in (\d+) ways`))
	require.Equal(t, bySchedules, count(t, reliability, `schedules found (\d+)`))
	require.Equal(t, len(all)-bySchedules, count(t, reliability, `with the reason, found (\d+)`))
	require.Greater(t, 2*soon, bySchedules, "most of them by one of the first fifty")
	require.Equal(t, len(all), count(t, readDoc(t, "CHANGELOG.md"), `breaks the code in (\d+) ways`))
}
