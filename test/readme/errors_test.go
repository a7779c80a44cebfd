package readme

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write results/messages.md anew")

var (
	// advice matches the beginning of an instruction in a message.
	advice = regexp.MustCompile(`[:;,] (?:or )?(?:add|ask|build|call|change|choose|close|copy|create|get|give|grant|install|keep|` +
		`leave|let|log in|lower|make|mount|name|pass|put|raise|read|register|remove|renew|return|run|say|see|set|share|start|stop|` +
		`take|try|upgrade|use|wait|want|write) `)
	verb     = regexp.MustCompile(`%[-+#.\d]*[a-zA-Z]`)
	sentinel = regexp.MustCompile("(?m)^\\| `(\\w+\\.Err\\w+)` \\| (.+) \\| .+ \\|$")
)

// results/messages.md lists every message of the root module that suggests a fix, and docs/errors.md every
// exported error with its text. To update the messages:
//
//	go test ./test/readme -run TestThePageOfErrors -update
func TestThePageOfErrors(t *testing.T) {
	messages, sentinels := errorsOf(t)
	want := "# Messages that say what to do\n\nA `…` stands for an argument, such as a name. `go test ./test/readme -run TestThePageOfErrors -update` writes this page.\n" + messages
	page := filepath.Join(root, "results/messages.md")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	if string(text) != want {
		t.Error("the page is not that of the code: run go test ./test/readme -run TestThePageOfErrors -update")
	}

	text, err = os.ReadFile(filepath.Join(root, "docs/errors.md"))
	require.NoError(t, err)
	shown := map[string]string{}
	for _, row := range sentinel.FindAllStringSubmatch(string(text), -1) {
		shown[row[1]] = row[2]
	}
	for _, name := range slices.Sorted(maps.Keys(sentinels)) {
		require.Equal(t, sentinels[name], shown[name], name)
		delete(shown, name)
	}
	require.Empty(t, shown, "there are no such errors")
}

// errorsOf returns the messages that suggest a fix, as sections of Markdown, and the texts of
// exported errors by name.
func errorsOf(t *testing.T) (sections string, sentinels map[string]string) {
	t.Helper()
	sentinels = map[string]string{}
	var out strings.Builder
	const shared = "internal/lease" // its messages reach users through two packages
	for _, dir := range append(house(t), shared, "adapters/clientgo", "adapters/controllerruntime") {
		if strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "apiservertest") {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		messages, adapter := map[string]bool{}, strings.HasPrefix(dir, "adapters/") // whose messages name other projects' types
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if message := message(n); advice.MatchString(message) && !adapter {
						messages[message] = true
					}
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if strings.HasPrefix(name.Name, "Err") && dir != shared && i < len(n.Values) {
							sentinels[filepath.Base(dir)+"."+name.Name] = textOf(t, parsed, n.Values[i])
						}
					}
				}
				return true
			})
		}
		if len(messages) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n### %s\n\n", strings.Replace(dir, shared, "leaderelection and membership", 1))
		for _, message := range slices.Sorted(maps.Keys(messages)) {
			fmt.Fprintf(&out, "- `%s`\n", message)
		}
	}
	return out.String(), sentinels
}

// textOf returns the text of an error in a file: of a call that creates it, or of another package's variable.
func textOf(t *testing.T, file *ast.File, value ast.Expr) string {
	t.Helper()
	other, ok := value.(*ast.SelectorExpr)
	if !ok {
		return message(value.(*ast.CallExpr))
	}
	for _, imported := range file.Imports {
		dir, own := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), "github.com/millrace-dev/millrace/")
		if !own || filepath.Base(dir) != other.X.(*ast.Ident).Name {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			text := ""
			ast.Inspect(parsed, func(n ast.Node) bool {
				if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == other.Sel.Name {
					text = message(spec.Values[0].(*ast.CallExpr))
				}
				return true
			})
			if text != "" {
				return text
			}
		}
	}
	require.Fail(t, "no such variable", "%s.%s", other.X, other.Sel)
	return ""
}

// message returns the text of a call that makes an error, with … for the arguments.
func message(call *ast.CallExpr) string {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || called.Sel.Name != "New" && called.Sel.Name != "Errorf" || len(call.Args) == 0 {
		return ""
	}
	var text strings.Builder
	ast.Inspect(call.Args[0], func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if s, err := strconv.Unquote(literal.Value); err == nil {
				text.WriteString(s)
			}
		}
		return true
	})
	return verb.ReplaceAllString(text.String(), "…")
}
