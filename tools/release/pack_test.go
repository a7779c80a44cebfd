package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-dev/millrace/tools/internal/dependency"
)

// A packed archive restores its files, which stay executable, and packing again gives the same
// bytes.
func TestArchives(t *testing.T) {
	files := []file{{"mill", []byte("turns"), 0o755}, {"man/mill.1", []byte("how"), 0o644}}
	at := time.Date(2026, 1, 2, 3, 4, 6, 0, time.FixedZone("", 3600))
	for _, system := range dependency.Systems {
		once, err := archive(system, files, at)
		if err != nil {
			t.Fatal(err)
		}
		again, err := archive(system, files, at.UTC())
		if err != nil || !bytes.Equal(once, again) {
			t.Errorf("%s: not the same again: %v", system, err)
		}
		var got []file
		if system == "windows" {
			r, err := zip.NewReader(bytes.NewReader(once), int64(len(once)))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.File {
				in, err := f.Open()
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(in)
				got = append(got, file{f.Name, text, f.Mode()})
			}
		} else {
			z, err := gzip.NewReader(bytes.NewReader(once))
			if err != nil {
				t.Fatal(err)
			}
			for r := tar.NewReader(z); ; {
				h, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(r)
				got = append(got, file{h.Name, text, h.FileInfo().Mode()})
			}
		}
		for n, f := range files {
			if n >= len(got) || got[n].name != f.name || string(got[n].text) != string(f.text) || got[n].mode != f.mode {
				t.Errorf("%s: got %v", system, got)
			}
		}
	}
}

// The bill lists everything linked into this test, with licences.
func TestBillOfMaterials(t *testing.T) {
	at := &tree{time: time.Unix(0, 0)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) == 0 {
		t.Skip("the go command records no modules in a test")
	}
	names := map[string][]string{}
	for _, m := range info.Deps {
		names[m.Path+"@"+m.Version] = []string{"MIT"}
	}
	text, err := billOfMaterials(target{program: "mill"}, at, program, names)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, PURL string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || len(bill.Components) != len(info.Deps)+1 || !strings.Contains(string(text), "pkg:golang/golang.org/x/mod@v") {
		t.Errorf("got %s", text)
	}
	delete(names, info.Deps[0].Path+"@"+info.Deps[0].Version)
	if _, err := billOfMaterials(target{}, at, program, names); err == nil || !strings.Contains(err.Error(), info.Deps[0].Path) {
		t.Errorf("what is linked and not known of: got %v", err)
	}
}

// The notices contain the licences of everything that a package links, and refuse licences that are
// not allowed.
func TestNotices(t *testing.T) {
	linked := dependency.Set{}
	if err := linked.Add(nil, "..", "linux", "./licenses"); err != nil {
		t.Fatal(err)
	}
	l, err := newLicenses()
	if err != nil {
		t.Fatal(err)
	}
	text, names, err := l.of(linked)
	if err != nil || len(names) != len(linked) || !strings.Contains(string(text), "licenseclassifier/v2@v2.0.0: LICENSE\n") || !strings.Contains(string(text), "Apache License") {
		t.Errorf("%v, %v\n%s", err, names, text)
	}
}

func TestKrewManifest(t *testing.T) {
	at := &tree{version: "v0.2.0", modules: []*member{{path: "example.com/mill"}}}
	files := map[string][]byte{}
	for _, of := range targets() {
		files[of.archive("v0.2.0")] = []byte("mill")
	}
	text, err := krewManifest(at, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"name: informer\n", "version: v0.2.0\n",
		"        os: windows\n        arch: arm64\n    uri: https://example.com/mill/releases/download/v0.2.0/informer-debug_v0.2.0_windows_arm64.zip\n    sha256: ",
		"    bin: informer-debug.exe\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "selector:"); n != 6 {
		t.Errorf("%d platforms", n)
	}
	delete(files, "informer-debug_v0.2.0_darwin_arm64.tar.gz")
	if _, err := krewManifest(at, files); err == nil {
		t.Error("an archive is missing, and nothing is said")
	}
}

// Downloads are not saved into a directory that has files.
func TestSavingIntoANonEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := save(dir, map[string][]byte{"a": nil}); err != nil {
		t.Fatal(err)
	}
	if err := save(dir, nil); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v", err)
	}
	if got := string(checksums(map[string][]byte{"b": nil, "a": []byte("x")})); !strings.HasPrefix(got, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  a\ne3b0") {
		t.Error(got)
	}
}

// A program is built as by go install, and must have the right version.
func TestBuildingFromTheProxy(t *testing.T) {
	r := repository(t)
	tmp := t.TempDir()
	defer removeAll(tmp)
	tree, err := r.tree(t.Context(), filepath.Join(tmp, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	w := world{version: tree.version, proxy: filepath.Join(tmp, "proxy"), tree: tree}
	if err := writeProxy(context.Background(), w.proxy, tree); err != nil {
		t.Fatal(err)
	}
	env, err := w.environment(t.Context(), filepath.Join(tmp, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{tree: tree, gopath: filepath.Join(tmp, "gopath"), scratch: tmp}
	b.env = append(append(os.Environ(), env...), "GOBIN=", "GOPATH="+b.gopath)
	native := targets()[0]
	for _, of := range targets() {
		if of.native() {
			native = of
		}
	}
	native.program = "mill"
	path, err := b.build(t.Context(), native)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil || info.Main.Version != "v0.2.0" {
		t.Errorf("got %v, %v", info, err)
	}
	tree.version = "v0.3.0"
	if _, err := b.document(t.Context(), "mill", path); err == nil || !strings.Contains(err.Error(), "has version v0.2.0, want v0.3.0") {
		t.Errorf("got %v", err)
	}
}
