package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write makes files below a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

// The edits of each suite apply to the release that it names, and its packages exist.
func TestEditsFit(t *testing.T) {
	if testing.Short() {
		t.Skip("asks for modules")
	}
	names, dirs := map[string]bool{}, map[string]string{}
	source := func(module string) string {
		if dirs[module] == "" {
			dir, err := download(t.Context(), module)
			require.NoError(t, err)
			dirs[module] = dir
		}
		return dirs[module]
	}
	for _, s := range suites {
		require.False(t, names[s.name], "two suites are called %s", s.name)
		names[s.name] = true
		for _, d := range s.dependencies {
			fits(t, s.name, source(d.module+"@"+d.version), d.edits)
		}
		for _, p := range s.programs {
			require.Contains(t, servers, p, s.name)
		}
		require.Equal(t, s.once, strings.Contains(s.choose.code, "countChosen()"), s.name)
		for _, c := range s.causes {
			_, err := regexp.Compile(c.tests)
			require.NoError(t, err)
		}
		if s.module == clusterAPIModule {
			continue // it has no edits and nothing else here needs it, so it is not downloaded
		}
		dir := source(s.module + "@" + s.version)
		fits(t, s.name, dir, s.edits)
		for _, p := range s.packages {
			tests, err := filepath.Glob(filepath.Join(dir, p, "*_test.go"))
			require.NoError(t, err)
			require.NotEmpty(t, tests, "%s has no tests in %s", s.name, p)
		}
	}
}

// fits fails the test unless every edit changes something.
func fits(t *testing.T, suite, dir string, edits []edit) {
	t.Helper()
	texts := map[string]string{}
	for _, e := range edits {
		text, known := texts[e.file]
		if !known {
			read, err := os.ReadFile(filepath.Join(dir, e.file))
			require.NoError(t, err)
			text = string(read)
		}
		texts[e.file] = strings.ReplaceAll(text, e.old, e.new)
		require.NotEqual(t, text, texts[e.file], "%s: %s has no place like this one: %s", suite, e.file, e.old)
	}
}

// A suite is run unmodified and with its variant, and both are counted: tests with other results,
// tests that did not end, and tests that were skipped.
func TestASuiteIsRunBothWays(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	dir := write(t, map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.26.0\n",
		"x.go":   "package x\n\nfunc Name() string { return \"stock\" }\n",
		"x_test.go": "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestSame(t *testing.T) {}\n" +
			"func TestName(t *testing.T) {\n\tif Name() != \"stock\" {\n\t\tt.Error(Name())\n\t}\n}\n" +
			"func TestInside(t *testing.T) {}\nfunc TestSkipped(t *testing.T) { t.Skip() }\n" +
			"func TestZEnds(t *testing.T) {\n\tif Name() != \"stock\" {\n\t\tos.Exit(3)\n\t}\n}\n",
	})
	s := &suite{
		packages: []string{"."}, without: "^TestInside$",
		edits:  []edit{{"x.go", `{ return "stock" }`, "{ return Chosen }\n\nvar Chosen string"}},
		choose: choice{[]string{`"example.com/x"`}, `x.Chosen = "millrace"`},
		causes: []cause{{"TestName", "It is another name."}},
	}
	log := filepath.Join(t.TempDir(), "log")
	var r result
	var err error
	r.stock, err = goTest(t.Context(), dir, s, "", os.Environ(), log)
	require.NoError(t, err)
	require.NoError(t, s.apply(dir))
	r.millrace, err = goTest(t.Context(), dir, s, s.without, os.Environ(), log)
	require.NoError(t, err)
	r.count()
	require.Equal(t, counts{Passed: 4, Skipped: 1}, r.Stock)
	require.Equal(t, counts{Passed: 1, Failed: 2, Skipped: 1}, r.Millrace)
	require.Equal(t, []difference{
		{". TestInside", "passed", ""},
		{". TestName", "passed", "failed"},
		{". TestZEnds", "passed", "failed"},
	}, r.Differences)
	require.ErrorContains(t, r.unexplained(s), "TestInside")
	require.NotContains(t, r.unexplained(s).Error(), "TestName")
	require.ErrorContains(t, s.apply(dir), "does not contain")
}

// A suite that is compiled once runs unmodified unless the environment selects the variant. Its
// choice is counted.
func TestASuiteThatIsCompiledOnceIsAskedByTheEnvironment(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs tests")
	}
	dir := write(t, map[string]string{
		"go.mod":    "module example.com/x\n\ngo 1.26.0\n",
		"x.go":      "package x\n\nvar Chosen func() string\n\nfunc Name() string {\n\tif Chosen != nil {\n\t\treturn Chosen()\n\t}\n\treturn \"stock\"\n}\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestName(t *testing.T) {\n\tif Name() != \"stock\" || Name() != \"stock\" {\n\t\tt.Error(Name())\n\t}\n}\n",
	})
	s := &suite{
		packages: []string{"."}, once: true,
		choose: choice{[]string{`"example.com/x"`}, "x.Chosen = func() string { countChosen(); return \"millrace\" }"},
	}
	require.NoError(t, s.apply(dir))
	require.NoError(t, s.compile(t.Context(), dir, os.Environ()))
	log, chosen := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "chosen")
	stock, err := goTest(t.Context(), dir, s, "", os.Environ(), log)
	require.NoError(t, err)
	require.Equal(t, outcomes{". TestName": "passed"}, stock)
	_, err = size(chosen)
	require.ErrorIs(t, err, os.ErrNotExist)
	millrace, err := goTest(t.Context(), dir, s, "", append(os.Environ(), chosenVariable+"="+chosen), log)
	require.NoError(t, err)
	require.Equal(t, outcomes{". TestName": "failed"}, millrace)
	n, err := size(chosen)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

// Directories of a module's repository are replaced by releases, and nothing else is.
func TestFoldersAreReplacedByReleases(t *testing.T) {
	dir := write(t, map[string]string{"go.mod": "module example.com/x\n\ngo 1.26.0\n\n" +
		"replace k8s.io/api => ./staging/src/k8s.io/api\n\nreplace example.com/x/y => ./y\n\nreplace example.com/z => example.com/other v1.2.0\n"})
	args, err := releases(t.Context(), dir, "v1.37.0")
	require.NoError(t, err)
	require.Equal(t, []string{"-replace=k8s.io/api=k8s.io/api@v0.37.0", "-replace=example.com/x/y=example.com/x/y@v1.37.0"}, args)
}

// A process that fails although none of its tests has failed counts as a failure. If a test has
// failed, it does not count again.
func TestAProcessThatFailsIsCounted(t *testing.T) {
	for events, want := range map[string]outcomes{
		`{"Action":"pass","Test":"TestX"}` + "\n" + `{"Action":"fail"}`:                      {"./p TestX": "passed", "./p (process)": "failed"},
		`{"Action":"fail","Test":"TestX"}` + "\n" + `{"Action":"fail"}`:                      {"./p TestX": "failed"},
		`{"Action":"run","Test":"TestX"}` + "\n" + `{"Action":"fail"}`:                       {"./p TestX": "failed"},
		`{"Action":"build-fail"}` + "\n" + `{"Action":"fail","FailedBuild":"example.com/p"}`: {"./p (build)": "failed"},
		`{"Action":"pass","Test":"TestX"}` + "\n" + `{"Action":"pass"}`:                      {"./p TestX": "passed"},
	} {
		got := outcomes{}
		require.NoError(t, got.read(strings.NewReader(events), "./p"))
		require.Equal(t, want, got, events)
	}
}

// A test has the same name in two runs even if its name contains a seed from the clock.
func TestNamesWithoutTime(t *testing.T) {
	got := outcomes{}
	require.NoError(t, got.read(strings.NewReader(`
		{"Action":"run","Test":"TestX"}
		{"Action":"run","Test":"TestX/random(1795640000123)"}
		{"Action":"run","Test":"TestX/random(1795640000123)/a"}
		{"Action":"run","Test":"TestX/random(1795640000456)"}
		{"Action":"pass","Test":"TestX/random(1795640000456)"}
		{"Action":"pass","Test":"TestX/random(1795640000123)/a"}
		{"Action":"skip","Test":"TestX/random(42)"}
		{"Action":"fail","Test":"TestX"}
	`), "./p"))
	require.Equal(t, outcomes{
		"./p TestX": "failed", "./p TestX/random(TIME)": "failed", "./p TestX/random(TIME)/a": "passed",
		"./p TestX/random(TIME) (2)": "passed", "./p TestX/random(42)": "skipped",
	}, got)
}

// Specs are counted by their texts, and containers only if they failed.
func TestSpecsAreCounted(t *testing.T) {
	type spec map[string]any
	text, err := json.Marshal([]any{map[string]any{"SpecReports": []spec{
		{"LeafNodeType": "BeforeSuite", "State": "passed"},
		{"LeafNodeType": "AfterSuite", "LeafNodeText": "stops", "State": "failed"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": []string{"Cache"}, "LeafNodeText": "reads", "State": "passed"},
		{"LeafNodeType": "It", "ContainerHierarchyTexts": []string{"Cache"}, "LeafNodeText": "reads", "State": "panicked"},
		{"LeafNodeType": "It", "LeafNodeText": "waits", "State": "pending"},
	}}})
	require.NoError(t, err)
	dir := write(t, map[string]string{"report.json": string(text)})
	got := outcomes{}
	require.NoError(t, got.readSpecs(filepath.Join(dir, "report.json"), "./p"))
	require.Equal(t, outcomes{"./p stops": "failed", "./p Cache reads": "passed", "./p Cache reads (2)": "failed", "./p waits": "skipped"}, got)
	require.Error(t, got.readSpecs(filepath.Join(dir, "none.json"), "./p"))
}

// The page is made from all results, and explains each difference.
func TestTheReportGivesReasons(t *testing.T) {
	s := &suite{name: "a suite", causes: []cause{{"Inside", "It looks inside."}}}
	var out strings.Builder
	s.explain(&out, []difference{{"p TestInside", "passed", ""}, {"p TestOther", "passed", "failed"}, {"q TestInside", "passed", "failed"}})
	require.Equal(t, "- It looks inside.\n  - `p TestInside`: passed in stock, not run with Millrace\n  - `q TestInside`: passed in stock, failed with Millrace\n"+
		"- The cause is not known yet.\n  - `p TestOther`: passed in stock, failed with Millrace\n", out.String())
}
