package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const head = `# Software that others wrote

Test suites of other people's programs, run twice: as they are, and with Millrace in place of
their informers, caches or queues. Nothing else is changed; ` + "`test/software`" + ` has the edits, which are
the line by which the informer is chosen. A test that ends otherwise is our defect unless it
is shown here not to be one. A plus sign after a revision means changes that were
committed with the result. This page is made by ` + "`make software`" + `.

What takes long to compile is compiled once, with the edits, and run twice. Whose informers or
caches there are is then chosen when they are made, and those of Millrace are counted. Kubernetes'
integration tests start API servers in their own process, whose informers are Millrace's as
well. Of cert-manager's controllers, those for Venafi are not among them: their library could not be
had.

| suite | of | in its place | stock: passed / failed / skipped | Millrace: passed / failed / skipped | differ | measured |
|---|---|---|---|---|---|---|
`

// report writes results/software.md from all suites' results.
func report(root string) error {
	var table, differences strings.Builder
	for _, s := range suites {
		r, err := readResult(resultFile(root, s.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&table, "| %s | `%s` %s | %s | %v | %v | %d | %s, %s |\n", s.name, s.module, s.version, r.place(s), r.Stock, r.Millrace, len(r.Differences), r.Date, r.Revision)
		if len(r.Differences) > 0 {
			fmt.Fprintf(&differences, "\n### %s\n\n", s.name)
			s.explain(&differences, r.Differences)
		}
	}
	text := head + table.String() + "\n`make software ONLY='NAME'` runs one again.\n"
	if differences.Len() > 0 {
		text += "\n## What differs, and why\n" + differences.String()
	}
	played, err := readComparison(resultFile(root, controllersName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		text += played.section()
	}
	return os.WriteFile(filepath.Join(root, "results", "software.md"), []byte(text), 0o644)
}

// place lists the functions that were replaced with Millrace's.
func (r *result) place(s *suite) string {
	if r.Chosen > 0 {
		times := fmt.Sprintf("%d times", r.Chosen)
		if r.Chosen == 1 {
			times = "once"
		}
		return s.chosen + ", " + times
	}
	return s.chosen
}

// explain lists the differences, grouped by cause.
func (s *suite) explain(out *strings.Builder, differences []difference) {
	var reasons []string
	under := map[string][]difference{}
	for _, d := range differences {
		reason := s.reason(d.Test)
		if reason == "" {
			reason = "Nobody has found out why yet."
		}
		if under[reason] == nil {
			reasons = append(reasons, reason)
		}
		under[reason] = append(under[reason], d)
	}
	for _, reason := range reasons {
		fmt.Fprintf(out, "- %s\n", reason)
		for _, d := range under[reason] {
			fmt.Fprintf(out, "  - `%s`: %s in stock, %s with Millrace\n", d.Test, orNotRun(d.Stock), orNotRun(d.Millrace))
		}
	}
}

func orNotRun(word string) string {
	if word == "" {
		return "not run"
	}
	return word
}
