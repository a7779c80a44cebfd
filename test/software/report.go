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

Each test suite of another project runs twice: unchanged, and with Millrace in place of its informers, caches or
queues. ` + "`test/software`" + ` contains the edits; they change only the line that selects the informer. If a test's result
differs, this is a bug in Millrace unless a cause is given below. A plus sign after a revision stands for changes that
were committed together with the result. ` + "`make software`" + ` writes this page.

A suite that takes long to compile is compiled once, with the edits, and selects its informers or caches at run time;
those of Millrace are counted. Kubernetes' integration tests start API servers in their own process, so the informers of
these servers are Millrace's too. The controllers of cert-manager exclude those for Venafi, whose library was not
available.

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
	text := head + table.String() + "\n`make software ONLY='NAME'` repeats one.\n"
	if differences.Len() > 0 {
		text += "\n## Differences and their causes\n" + differences.String()
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
			reason = "The cause is not known yet."
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
