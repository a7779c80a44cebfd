package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	code = regexp.MustCompile("`[^`]+`")
	name = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*(?:\.[A-Z]\w*)?)`)
)

// adapters are the packages outside the root module that documents name.
var adapters = map[string]string{"clientgo": "adapters/clientgo", "millrace": "adapters/controllerruntime", "envtest": "envtest"}

// Every qualified name in a document's code exists in our packages. The first column of a table is
// ignored, because it names other libraries.
func TestDocumentsNameExistingIdentifiers(t *testing.T) {
	packages := packages(t)
	known := map[string]map[string]bool{}
	checked := 0
	for _, path := range documents(t) {
		if strings.Contains(path, "/adapters/") || filepath.Base(path) == "CHANGELOG.md" {
			continue // these pages are about other libraries or other versions
		}
		for n, line := range prose(t, path) {
			for _, span := range code.FindAllString(claims(line), -1) {
				for _, found := range name.FindAllStringSubmatch(span, -1) {
					dir, ours := packages[found[1]]
					if !ours {
						continue
					}
					if known[dir] == nil {
						known[dir] = exported(t, filepath.Join(root, dir))
					}
					checked++
					if !known[dir][found[2]] {
						t.Errorf("%s:%d: there is no %s", path, n+1, found[0])
					}
				}
			}
		}
	}
	require.Greater(t, checked, 200, "the names were not found")
}

// The documentation of the root package lists every package on its own line, and no others.
func TestTheRootListsAllPackages(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "doc.go"))
	require.NoError(t, err)
	var listed []string
	for _, found := range regexp.MustCompile(`(?m)^//\t(\S+)  +\S`).FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, found[1])
	}
	require.ElementsMatch(t, house(t), listed)
}

// claims returns the part of a line about Millrace: everything except the first column of a table.
func claims(line string) string {
	if !strings.HasPrefix(line, "| ") {
		return line
	}
	_, rest, _ := strings.Cut(line[2:], " | ")
	return rest
}

// packages returns the directories of the packages that documents name, by name.
func packages(t *testing.T) map[string]string {
	t.Helper()
	found := maps.Clone(adapters)
	for _, dir := range house(t) {
		found[filepath.Base(dir)] = dir
	}
	return found
}

// house returns the directories of the root module's packages, except commands, examples,
// benchmarks and internal packages.
func house(t *testing.T) (dirs []string) {
	t.Helper()
	outside := []string{"adapters", "bench", "cmd", "examples", "internal", "testdata", "tools"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() || path == root {
			return nil
		}
		if slices.Contains(outside, d.Name()) || strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, "_test.go") }) {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			dirs = append(dirs, filepath.ToSlash(relative))
		}
		return nil
	})
	require.NoError(t, err)
	return dirs
}

// exported returns the exported names of a package, with methods and fields as Type.Name.
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

// typeName returns the name of a receiver's type.
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
