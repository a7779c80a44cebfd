package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var vulnerableModule = map[string]string{
	"go.mod":  "module example.com/m\n\ngo 1.26\n",
	"main.go": "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"a\")) }\n",
}

// A module is vulnerable only if it calls a vulnerable function.
func TestAVulnerableCallIsFound(t *testing.T) {
	t.Chdir("..") // the directory with the version of govulncheck
	module := tree(t, vulnerableModule)
	for symbol, want := range map[string]string{"ToUpper": module + ": vulnerable: ", "ToLower": ""} {
		var out bytes.Buffer
		got := ""
		if err := scanAll(t.Context(), "file://"+filepath.ToSlash(database(t, symbol, entry)), []string{module}, &out); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") || strings.Contains(out.String(), "SKIPPED") ||
			strings.Contains(out.String(), "m.main calls strings."+symbol) != (want != "") {
			t.Errorf("%s: got %q and\n%s", symbol, got, &out)
		}
	}
}

// Any other end of govulncheck is not a verdict. It panics while printing this entry, and its exit
// code is then 2 or 0.
func TestAPanicOfGovulncheckIsAFailure(t *testing.T) {
	t.Chdir("..")
	module := tree(t, vulnerableModule)
	var out bytes.Buffer
	err := scanAll(t.Context(), "file://"+filepath.ToSlash(database(t, "ToUpper", strings.Replace(entry, `"database_specific"`, `"x"`, 1))), []string{module}, &out)
	if err == nil || !strings.Contains(err.Error(), "govulncheck ") || strings.Contains(err.Error(), "vulnerable") {
		t.Errorf("got %v and\n%s", err, &out)
	}
}

// Without a database the check reports that it did not run, and does not fail.
func TestUnreachableDatabaseIsReported(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	for _, db := range []string{down.URL, broken.URL, "file://" + t.TempDir()} {
		var out bytes.Buffer
		if err := scanAll(t.Context(), db, []string{"."}, &out); err != nil {
			t.Errorf("%s: %v", db, err)
		}
		if !strings.Contains(out.String(), "SKIPPED: the vulnerability database cannot be") {
			t.Errorf("%s: got %s", db, &out)
		}
	}
}

// entry is an entry of a database: SYMBOL of package strings is vulnerable.
const entry = `{"id":"GO-2026-9999","modified":"2026-01-01T00:00:00Z","schema_version":"1.3.1",` +
	`"database_specific":{"url":"https://example.com"},"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},` +
	`"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"strings","symbols":["SYMBOL"]}]}}]}`

// database returns a directory in the form of a database with one entry. See
// https://go.dev/security/vuln/database.
func database(t *testing.T, symbol, entry string) string {
	const head = `{"id":"GO-2026-9999","modified":"2026-01-01T00:00:00Z"}`
	return tree(t, map[string]string{
		"index/db.json":        `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json":   `[{"path":"stdlib","vulns":[` + head + `]}]`,
		"index/vulns.json":     `[` + head + `]`,
		"ID/GO-2026-9999.json": strings.Replace(entry, "SYMBOL", symbol, 1),
	})
}

// tree returns a directory with files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
