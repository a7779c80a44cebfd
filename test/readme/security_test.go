package readme

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing\.[TF]\)`)
	wrappedFuzz  = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
)

// Every row of the threat model names an existing test in its last column. Every fuzz target is
// named.
func TestEveryThreatHasATest(t *testing.T) {
	tests, fuzz := map[string]bool{}, map[string]bool{}
	for path, text := range sources(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, found := range declaredTest.FindAllStringSubmatch(text, -1) {
			tests[found[1]] = true
		}
		for _, found := range wrappedFuzz.FindAllStringSubmatch(text, -1) {
			fuzz[found[1]] = true
		}
	}
	threats, measured := 0, false // the section after the threats lists the amount of fuzzing
	for n, line := range prose(t, filepath.Join(root, "docs/security.md")) {
		measured = measured || line == "## How it is fuzzed"
		for _, found := range namedTest.FindAllStringSubmatch(line, -1) {
			require.True(t, tests[found[1]], "docs/security.md:%d: there is no %s", n+1, found[1])
			if !measured {
				delete(fuzz, found[1])
			}
		}
		if measured || !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| test |") {
			continue
		}
		threats++
		columns := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, columns, 3, "docs/security.md:%d", n+1)
		require.Regexp(t, namedTest, columns[2], "docs/security.md:%d: no test", n+1)
	}
	require.Greater(t, threats, 40, "the lines were not found")
	// Targets that compare encodings find bugs, not attacks.
	for _, name := range []string{"FuzzProtoHead", "FuzzJSONEqualsTheReference", "FuzzUntypedFieldsJSON"} {
		delete(fuzz, name)
	}
	require.Empty(t, slices.Sorted(maps.Keys(fuzz)), "targets that docs/security.md does not name")
}
