package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// counts holds the work done per target, by name.
type counts map[string]ran

func (c counts) add(name string, r ran) {
	sum := c[name]
	sum.execs += r.execs
	sum.took += r.took
	c[name] = sum
}

// table returns the counts and their sum as Markdown.
func (c counts) table() string {
	var b strings.Builder
	var sum ran
	b.WriteString("| package | target | inputs | time |\n|---|---|---:|---:|\n")
	for _, name := range slices.Sorted(maps.Keys(c)) {
		pkg, target, _ := strings.Cut(name, " ")
		pkg = strings.TrimPrefix(pkg, "github.com/millrace-dev/millrace/")
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %v |\n", pkg, target, grouped(c[name].execs), c[name].took)
		sum.execs += c[name].execs
		sum.took += c[name].took
	}
	fmt.Fprintf(&b, "| all | | %s | %v |\n", grouped(sum.execs), sum.took)
	return b.String()
}

// grouped formats a number with thousands separators.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// readCounts reads a file written by write. It returns empty counts if the file is missing.
func readCounts(path string) (counts, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c := counts{}
	for line := range strings.Lines(string(text)) {
		var pkg, name, took string
		var r ran
		if _, err := fmt.Sscan(line, &pkg, &name, &r.execs, &took); err != nil {
			return nil, fmt.Errorf("%s: %q: must be a package, a target, a number and a time: %w", path, strings.TrimSpace(line), err)
		}
		if r.took, err = time.ParseDuration(took); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c.add(pkg+" "+name, r)
	}
	return c, nil
}

func (c counts) write(path string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s %d %v\n", name, c[name].execs, c[name].took)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
