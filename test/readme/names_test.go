package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packages are where names of the comparison come from.
var packages = map[string]string{
	"apiserver": "test/apiserver", "controller": "controller", "controllermanager": "controllermanager",
	"controllertest": "controller/controllertest", "envtest": "test/envtest", "factory": "factory", "indexer": "indexer",
	"leaderelection": "leaderelection", "manager": "manager", "metrics": "metrics", "reflector": "reflector", "rest": "rest",
	"scheme": "rest/scheme", "serving": "serving", "sharedinformer": "sharedinformer", "webhook": "webhook", "wire": "wire",
	"workqueue": "workqueue",
}

var (
	code = regexp.MustCompile("`[^`]+`")
	name = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
)

// What the comparison with controller-runtime says that there is, there is: in the
// right column.
func TestTheComparisonNamesWhatThereIs(t *testing.T) {
	require.Greater(t, lookUp(t, "../../docs/controller-runtime.md", func(line string) string {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 {
			return ""
		}
		return cells[1]
	}), 150)
}

// So it is with the guide for those who come from there.
func TestTheGuideNamesWhatThereIs(t *testing.T) {
	require.Greater(t, lookUp(t, "../../docs/porting.md", func(line string) string { return line }), 25)
}

// lookUp looks up the names in what claims returns of each line of a document, and
// returns how many it has found.
func lookUp(t *testing.T, path string, claims func(line string) string) (checked int) {
	document, err := os.ReadFile(path)
	require.NoError(t, err)
	known := map[string]map[string]bool{}
	for n, line := range strings.Split(string(document), "\n") {
		for _, span := range code.FindAllString(claims(line), -1) {
			for _, found := range name.FindAllStringSubmatch(span, -1) {
				dir, ours := packages[found[1]]
				if !ours {
					continue
				}
				if known[dir] == nil {
					known[dir] = exported(t, filepath.Join("../..", dir))
				}
				checked++
				if !known[dir][found[2]] {
					t.Errorf("%s:%d: there is no %s", path, n+1, found[0])
				}
			}
		}
	}
	return checked
}

// exported returns the exported names of a package, those of methods and fields after
// the name of their type.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			declared(d, names)
		}
	}
	return names
}

func declared(d ast.Decl, names map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		names[typeName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names[name.Name] = true
				}
			case *ast.TypeSpec:
				names[spec.Name.Name] = true
				if s, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							names[spec.Name.Name+"."+name.Name] = true
						}
					}
				}
			}
		}
	}
}

// typeName is the name of a receiver's type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
