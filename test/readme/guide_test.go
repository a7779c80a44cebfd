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

// named matches a block of a document that has a file name after its language.
var named = regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$")

// The guide contains each file of its example or links to it, except generated files. A block of Go
// without a name is a part of a file that the guide links to.
func TestGuideMatchesTheExample(t *testing.T) {
	const example = root + "/examples/first-operator"
	guide, err := os.ReadFile(filepath.Join(root, "docs/first-operator.md"))
	require.NoError(t, err)
	shown := map[string]string{}
	for _, block := range named.FindAllStringSubmatch(string(guide), -1) {
		require.NotContains(t, shown, block[1], "shown twice")
		shown[block[1]] = block[2]
	}
	made := map[string]bool{
		"go.mod": true, "go.sum": true, "README.md": true,
		"api/v1/zz_generated.deepcopy.go": true, "deploy/dev.example.com_sandboxes.yaml": true, "deploy/role.yaml": true,
	}
	linked := ""
	err = fs.WalkDir(os.DirFS(example), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || made[name] {
			return err
		}
		text, err := os.ReadFile(filepath.Join(example, name))
		if strings.Contains(string(guide), "(../examples/first-operator/"+name+")") {
			require.NotContains(t, shown, name, "shown, and linked to")
			linked += statements(string(text))
			return err
		}
		require.Equal(t, string(text), shown[name], "%s in the guide", name)
		delete(shown, name)
		return err
	})
	require.NoError(t, err)
	require.Empty(t, shown, "the example has no such files")
	for _, block := range goBlocks(t, "docs/first-operator.md") {
		for part := range strings.SplitSeq(block, "\n\n") {
			require.Contains(t, linked, statements(part))
		}
	}
}
