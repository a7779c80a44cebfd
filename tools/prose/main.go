// Command prose counts phrases that make a repository's comments, error messages and Markdown files hard to
// read. It fails if any of them occurs too often.
//
//	go -C tools run ./prose ..
//
// For each kind of text, it prints how many sentences per 1,000 match each pattern. If a pattern is above its
// limit, it prints the matching sentences with file and line. A match is a hint, not a verdict. Rephrasing a
// sentence into another odd pattern that the command does not know is worse than leaving it alone.
// CONTRIBUTING.md describes how to write for Millrace.
//
// # Scope
//
// The command skips tests, testdata, generated files, the generated pages in results, code blocks, and
// sentences of fewer than four words.
//
// # Failure
//
// It exits with 1 if a pattern is above its limit or a file cannot be read.
package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prose DIRECTORY")
		os.Exit(2)
	}
	sentences, err := readAll(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
	if !report(os.Stdout, sentences) {
		os.Exit(1)
	}
}

// report prints the rates, and the matches of patterns above their limit. It returns false if there are
// any.
func report(to io.Writer, all []sentence) (ok bool) {
	counts := map[kind]int{}
	for _, s := range all {
		counts[s.kind]++
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "per 1,000 sentences")
	for _, k := range kinds {
		fmt.Fprintf(table, "\t%s (%d)", k, counts[k])
	}
	fmt.Fprintln(table, "\tlimit")
	var above []string
	for _, p := range patterns {
		fmt.Fprint(table, p.name)
		for _, k := range kinds {
			var found []sentence
			for _, s := range all {
				if s.kind == k && p.matches(s.text) {
					found = append(found, s)
				}
			}
			rate := 1000 * float64(len(found)) / float64(max(counts[k], 1))
			fmt.Fprintf(table, "\t%.1f", rate)
			if rate > p.limit {
				for _, s := range found {
					above = append(above, fmt.Sprintf("%s:%d: %s: %s", s.file, s.line, p.name, s.text))
				}
			}
		}
		fmt.Fprintf(table, "\t%g\n", p.limit)
	}
	_ = table.Flush() // of standard output
	for _, line := range above {
		fmt.Fprintln(to, line)
	}
	return len(above) == 0
}
