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

// A module is vulnerable if it calls what is known to be, and not if it does not.
func TestAVulnerableCallIsFound(t *testing.T) {
	t.Chdir("..") // where the version of govulncheck is
	module := tree(t, map[string]string{
		"go.mod":  "module example.com/m\n\ngo 1.26\n",
		"main.go": "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"a\")) }\n",
	})
	for symbol, found := range map[string]bool{"ToUpper": true, "ToLower": false} {
		var out bytes.Buffer
		err := scanAll(t.Context(), "file://"+filepath.ToSlash(database(t, symbol)), []string{module}, &out)
		if got := err != nil && strings.Contains(out.String(), "GO-2026-9999"); got != found || strings.Contains(out.String(), "SKIPPED") {
			t.Errorf("%s: got %v and\n%s", symbol, err, &out)
		}
	}
}

// Without a database the check says that it did not happen, and is no failure.
func TestAnUnreachableDatabaseIsSaid(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	for _, db := range []string{down.URL, broken.URL, "file://" + t.TempDir()} {
		var out bytes.Buffer
		if err := scanAll(t.Context(), db, []string{"."}, &out); err != nil {
			t.Errorf("%s: %v", db, err)
		}
		if !strings.Contains(out.String(), "SKIPPED: the database of vulnerabilities cannot be") {
			t.Errorf("%s: got %s", db, &out)
		}
	}
}

// database returns a directory in the form of a database in which one function of
// package strings is vulnerable. https://go.dev/security/vuln/database
func database(t *testing.T, symbol string) string {
	const entry = `{"id":"GO-2026-9999","modified":"2026-01-01T00:00:00Z"`
	return tree(t, map[string]string{
		"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[` + entry + `}]}]`,
		"index/vulns.json":   `[` + entry + `}]`,
		"ID/GO-2026-9999.json": entry + `,"schema_version":"1.3.1","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},` +
			`"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"strings","symbols":["` + symbol + `"]}]}}]}`,
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
