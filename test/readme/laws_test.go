package readme

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	law     = regexp.MustCompile(`(?m)^- \*\*([LWCDSO]\d\d) `)
	lawTest = regexp.MustCompile(`(?m)^func Test([LWCDSO]\d\d)_`)
	lawName = regexp.MustCompile(`\b[LWCDSO]\d\d\b`)
	lines   = regexp.MustCompile(`#L\d+(-L\d+)?`) // line numbers of a file in a URL
)

// Each law has a test named after it.
func TestEachLawHasATest(t *testing.T) {
	laws, tested := laws(t), map[string]bool{}
	for path, text := range sources(t) {
		for _, found := range lawTest.FindAllStringSubmatch(text, -1) {
			require.Contains(t, laws, found[1], path)
			tested[found[1]] = true
		}
	}
	for law := range laws {
		require.Contains(t, tested, law)
	}
}

// Every law that code or a document refers to is in LAWS.md.
func TestReferencesToLawsAreToLaws(t *testing.T) {
	laws := laws(t)
	texts := sources(t)
	for _, path := range documents(t) {
		texts[path] = strings.Join(prose(t, path), "\n")
	}
	referred := 0
	for path, text := range texts {
		for _, name := range lawName.FindAllString(lines.ReplaceAllString(text, ""), -1) {
			referred++
			require.Contains(t, laws, name, path)
		}
	}
	require.Greater(t, referred, 100, "the references were not found")
}

func laws(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "LAWS.md"))
	require.NoError(t, err)
	found := map[string]bool{}
	for _, law := range law.FindAllStringSubmatch(string(text), -1) {
		require.NotContains(t, found, law[1], "twice")
		found[law[1]] = true
	}
	require.Greater(t, len(found), 30)
	return found
}

// sources returns the text of every Go file of the repository.
func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts[path] = string(text)
		}
		return nil
	})
	require.NoError(t, err)
	return texts
}
