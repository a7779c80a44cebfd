package readme

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// link matches an inline link or an image, [text](target).
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// A relative link in a Markdown file leads to an existing file, and its anchor to a heading of that
// file.
func TestLinksResolve(t *testing.T) {
	checked := 0
	for _, path := range documents(t) {
		for n, line := range prose(t, path) {
			for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if strings.Contains(found[1], "://") {
					continue
				}
				checked++
				if why := follow(t, path, found[1]); why != "" {
					t.Errorf("%s:%d: (%s): %s", path, n+1, found[1], why)
				}
			}
		}
	}
	require.Greater(t, checked, 100, "the links were not found")
}

// The README of docs/design has one line for each page, with a link.
func TestTheDesignPagesAreListed(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/design/*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	list, err := os.ReadFile(filepath.Join(root, "docs/design/README.md"))
	require.NoError(t, err)
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if name == "README" {
			continue
		}
		require.Equal(t, 1, strings.Count(string(list), "| ["+name+"]("+name+".md) | "), name)
	}
}

// The README of docs links to every page in its directory.
func TestTheDocumentsAreListed(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	list, err := os.ReadFile(filepath.Join(root, "docs/README.md"))
	require.NoError(t, err)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(list), "("+name, "docs/README.md does not lead to it")
		}
	}
}

// follow returns the problem with a link of a document, or nothing.
func follow(t *testing.T, document, target string) string {
	t.Helper()
	path, anchor, anchored := strings.Cut(target, "#")
	file := document
	if path != "" {
		file = filepath.Join(filepath.Dir(document), filepath.FromSlash(path))
	}
	info, err := os.Stat(file)
	if err != nil {
		return "there is no such file"
	}
	if !anchored {
		return ""
	}
	if info.IsDir() || filepath.Ext(file) != ".md" {
		return "an anchor in what is not Markdown"
	}
	if !anchors(t, file)[anchor] {
		return "there is no such heading"
	}
	return ""
}

// documents returns every Markdown file of the repository.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return nil
	})
	require.NoError(t, err)
	return paths
}

// prose returns the lines of a document, with code replaced by blank lines.
func prose(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the anchors that GitHub generates for the headings of a document.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range prose(t, path) {
		text := strings.TrimLeft(line, "#")
		if text == line || !strings.HasPrefix(text, " ") {
			continue
		}
		first := slug(link.ReplaceAllString(text, "]"))
		anchor := first
		for i := 1; found[anchor]; i++ {
			anchor = first + "-" + strconv.Itoa(i)
		}
		found[anchor] = true
	}
	return found
}

// slug returns the anchor of the first heading with a text.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// standard are packages of Go whose paths look like directories of this repository.
var standard = []string{"`testing/synctest`", "`log/slog`"}

// path matches code that names a file or a directory of the repository.
var path = regexp.MustCompile("^`[a-z][a-z0-9_-]*(/[a-zA-Z0-9_.-]+)+`$")

// Every file or directory that a document names exists.
func TestPathsExist(t *testing.T) {
	checked := 0
	for _, document := range documents(t) {
		if strings.Contains(document, "/adapters/") || strings.Contains(document, "/examples/") || filepath.Base(document) == "CHANGELOG.md" {
			continue // they name directories of their own
		}
		for n, line := range prose(t, document) {
			if filepath.Base(document) == "controller-runtime.md" {
				line = claims(line)
			}
			for _, span := range code.FindAllString(line, -1) {
				if !path.MatchString(span) || slices.Contains(standard, span) {
					continue
				}
				checked++
				if _, err := os.Stat(filepath.Join(root, strings.Trim(span, "`"))); err != nil {
					t.Errorf("%s:%d: there is no %s", document, n+1, span)
				}
			}
		}
	}
	require.Greater(t, checked, 20, "the paths were not found")
}
