// Package floors checks that imports go only from higher to lower layers.
package floors

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/millrace-dev/millrace"

// floors are the packages of the library, from the ground up. A package may
// import those of lower floors.
var floors = [][]string{
	{"object", "failure", "flight", "internal/confidential", "internal/jitter", "internal/mergepatch", "internal/patience", "internal/printable", "internal/redial", "internal/selector", "internal/throttle", "internal/trusted"},
	{"source", "wire", "recording", "shard", "internal/reading"},
	{"rest", "rest/config", "rest/discovery", "rest/scheme", "deltafifo", "indexer", "workqueue", "snapshot", "internal/sharding"},
	{"reflector", "internal/lease"},
	{"sharedinformer"},
	{"factory", "serving"},
	{"controller", "events", "leaderelection", "shard/membership", "webhook"},
	{"metrics", "debug"},
	{"manager"},
	{"controllermanager"},
	{"cmd"},
}

// within are the imports between packages of one floor, each with its reason.
var within = map[string]string{
	"failure → object":          "a failure names the object",
	"flight → object":           "an event is about the key of an object",
	"source → wire":             "a source yields what the decoder makes",
	"internal/reading → source": "a request that is given up says what it waited for",
	"rest → rest/config":        "the configuration says where the server is, and who asks",
	"rest → rest/discovery":     "discovery says where a kind is served",
}

// divided are directories whose internal packages may import each other only as listed in within.
var divided = []string{"rest"}

// rooms are the floors of the internal packages of a package or a command, from the ground up. A
// room may import those of lower floors.
var rooms = map[string][][]string{
	"wire": {
		{"fault", "memory"},
		{"selection", "guard", "frame", "pack", "head"},
		{"share"},
		{"parallel", "json", "protobuf", "cbor"},
	},
	"controller": {
		{"ownwrites"},
	},
	"cmd/informer-debug": {
		{"terminal", "diff", "jsonpath", "manual", "top", "page"},
		{"exit", "demo"},
		{"output", "cluster", "debugtest"},
		{"attach", "playback"},
		{"sight"},
		{"compare"},
		{"check", "churn", "cost", "doctor", "get", "shards", "view", "wait", "why"},
	},
}

// beside are packages that exist only for tests. No package of the library may import them.
var beside = []string{"apiservertest", "controllertest"}

// only are imports that are restricted to some packages.
var only = map[string][]string{
	"github.com/prometheus/client_golang": {"metrics", "cmd"},
	"github.com/spf13/cobra":              {"cmd"},
	"github.com/klauspost/compress":       {"wire/internal/pack", "recording"},
	"github.com/fxamacker/cbor":           {"wire/internal/cbor"},
	"github.com/stretchr/testify":         {"_test.go"},
	"k8s.io/client-go":                    {"cmd/informer-debug/internal/jsonpath"}, // a parser
	"unsafe":                              {"wire/internal/memory", "wire/internal/share", "wire/internal/json", "wire/internal/protobuf"},

	// shared by tests, not a part of the program
	module + "/cmd/informer-debug/internal/debugtest": {"_test.go"},
}

// never are modules that the root module must not require.
var never = []string{"sigs.k8s.io/controller-runtime", "k8s.io/kubernetes"}

func floorOf(pkg string) int {
	if slices.Contains(beside, pkg) {
		return -1
	}
	top, _, _ := strings.Cut(pkg, "/")
	for _, name := range []string{pkg, top} {
		for floor, packages := range floors {
			if slices.Contains(packages, name) {
				return floor
			}
		}
	}
	return -1
}

// source is a file of the root module with its imports.
type source struct {
	path, pkg string // relative to the root
	imports   []string
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if relative == "." {
				return nil
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && relative != "cmd/informer-debug" || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir // a separate module, or a directory that Go ignores
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{path: filepath.ToSlash(relative), pkg: filepath.ToSlash(filepath.Dir(relative))}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imported)
		}
		all = append(all, s)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 50, "the tree was not found")
	return all
}

func TestImportsRunDownwards(t *testing.T) {
	for _, s := range sources(t) {
		from := floorOf(s.pkg)
		if from < 0 || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, imported := range s.imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			top, _, _ := strings.Cut(s.pkg, "/")
			toTop, _, _ := strings.Cut(to, "/")
			switch floor := floorOf(to); {
			case top == toTop && floor >= 0 && !slices.Contains(divided, top), within[s.pkg+" → "+to] != "":
			case floor < 0 && top == "cmd": // the demo embeds the simulated server
			case floor < 0:
				t.Errorf("%s imports %s, which is not a part of the house", s.path, to)
			case floor >= from:
				t.Errorf("%s (floor %d) imports %s (floor %d)", s.path, from, to, floor)
			}
		}
	}
}

func TestRoomsImportDownwards(t *testing.T) {
	all := sources(t)
	for house, floors := range rooms {
		within := house + "/internal/"
		floorOf := func(room string) int {
			return slices.IndexFunc(floors, func(floor []string) bool { return slices.Contains(floor, room) })
		}
		seen := make(map[string]bool)
		for _, s := range all {
			room, ok := strings.CutPrefix(s.pkg, within)
			if !ok || strings.HasSuffix(s.path, "_test.go") {
				continue
			}
			seen[room] = true
			from := floorOf(room)
			require.GreaterOrEqual(t, from, 0, "%s is a room on no floor", s.pkg)
			for _, imported := range s.imports {
				if other, ok := strings.CutPrefix(imported, module+"/"+within); ok && floorOf(other) >= from {
					t.Errorf("%s (floor %d) imports %s (floor %d)", s.path, from, imported, floorOf(other))
				}
			}
		}
		require.Len(t, seen, len(slices.Concat(floors...)), "a room of %s is gone", house)
	}
}

func TestSomeImportsStayWhereTheyBelong(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			for _, module := range never {
				if imported == module || strings.HasPrefix(imported, module+"/") {
					t.Errorf("%s imports %s", s.path, imported)
				}
			}
			for what, places := range only {
				if imported != what && !strings.HasPrefix(imported, what+"/") {
					continue
				}
				allowed := strings.HasSuffix(s.path, "_test.go")
				for _, place := range places {
					allowed = allowed || s.pkg == place || strings.HasPrefix(s.pkg, place+"/")
				}
				if !allowed {
					t.Errorf("%s imports %s, which is kept to %s", s.path, imported, places)
				}
			}
		}
	}
}

// A program with its own source builds without the API client, its kubeconfig and its exec plugins.
func TestInformerDoesNotImportTheClient(t *testing.T) {
	for _, s := range sources(t) {
		switch s.pkg {
		case "failure", "source", "wire", "deltafifo", "indexer", "workqueue", "reflector", "sharedinformer":
		default:
			continue
		}
		for _, imported := range s.imports {
			of, ours := strings.CutPrefix(imported, module+"/rest")
			if ours && (of == "" || of[0] == '/') && !strings.HasSuffix(s.path, "_test.go") {
				t.Errorf("%s imports %s", s.path, imported)
			}
		}
	}
}

func TestRootModuleAvoidsDependencies(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	for _, module := range append(slices.Clip(never), "k8s.io/client-go") {
		require.NotContains(t, string(mod), module+" ")
	}
}
