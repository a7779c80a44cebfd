package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// writeProxy writes the modules of a tree to a directory in the layout of a module proxy; see
// https://go.dev/ref/mod#goproxy-protocol.
func writeProxy(ctx context.Context, dir string, t *tree) error {
	for _, m := range t.modules {
		if err := ctx.Err(); err != nil {
			return err
		}
		escaped, err := module.EscapePath(m.path)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		mod, err := os.ReadFile(filepath.Join(t.folder(m), "go.mod"))
		if err != nil {
			return err
		}
		info, err := json.Marshal(struct {
			Version string
			Time    time.Time
		}{t.version, t.time.UTC()})
		if err != nil {
			return err
		}
		content, err := t.zip(m)
		if err != nil {
			return err
		}
		for name, text := range map[string][]byte{
			"list": []byte(t.version + "\n"), t.version + ".info": info, t.version + ".mod": mod, t.version + ".zip": content,
		} {
			if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// zip returns a module's zip file.
func (t *tree) zip(m *member) ([]byte, error) {
	var b bytes.Buffer
	if err := zip.CreateFromDir(&b, t.at(m), t.folder(m)); err != nil {
		return nil, fmt.Errorf("pack %s: %w", m.path, err)
	}
	return b.Bytes(), nil
}

// sum returns the two go.sum lines of a module.
func (t *tree) sum(m *member) (string, error) {
	content, err := t.zip(m)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "millrace-release-*.zip")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return "", err
	}
	whole, err := dirhash.HashZip(f.Name(), dirhash.Hash1)
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(t.folder(m), "go.mod"))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", m.path, t.version, whole, mod), nil
}
