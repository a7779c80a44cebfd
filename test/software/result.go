package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// result is a suite's result.
type result struct {
	Suite       string
	Date        string
	Revision    string // Millrace's commit, followed by a plus sign if there were uncommitted changes
	Stock       counts
	Millrace    counts
	Chosen      int `json:",omitempty"` // number of Millrace informers or caches used, if counted
	Differences []difference

	stock, millrace outcomes
}

// counts holds the number of tests per outcome.
type counts struct{ Passed, Failed, Skipped int }

func (c counts) String() string { return fmt.Sprintf("%d / %d / %d", c.Passed, c.Failed, c.Skipped) }

// difference is a test that has a different result with Millrace, or that was run only once.
type difference struct{ Test, Stock, Millrace string }

// count tallies the tests of both runs.
func (r *result) count() {
	r.Stock, r.Millrace, r.Differences = r.stock.count(), r.millrace.count(), nil
	names := maps.Clone(r.stock)
	maps.Copy(names, r.millrace)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if r.stock[name] != r.millrace[name] {
			r.Differences = append(r.Differences, difference{name, r.stock[name], r.millrace[name]})
		}
	}
}

func (o outcomes) count() (c counts) {
	for _, word := range o {
		switch word {
		case "passed":
			c.Passed++
		case "skipped":
			c.Skipped++
		default:
			c.Failed++
		}
	}
	return c
}

func (r *result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: passed / failed / skipped: %v in stock, %v with Millrace", r.Suite, r.Stock, r.Millrace)
	for _, d := range r.Differences {
		fmt.Fprintf(&b, "\n  %s: %s in stock, %s with Millrace", d.Test, orNotRun(d.Stock), orNotRun(d.Millrace))
	}
	return b.String()
}

// reason returns the known cause of a difference, or "".
func (s *suite) reason(test string) string {
	for _, c := range s.causes {
		if regexp.MustCompile(c.tests).MatchString(test) {
			return c.reason
		}
	}
	return ""
}

// unexplained returns an error for differences without a known cause.
func (r *result) unexplained(s *suite) error {
	var errs []error
	for _, d := range r.Differences {
		if s.reason(d.Test) == "" {
			errs = append(errs, fmt.Errorf("no known cause for %s: %s in stock, %s with Millrace", d.Test, d.Stock, d.Millrace))
		}
	}
	return errors.Join(errs...)
}

func resultFile(root, name string) string {
	return filepath.Join(root, "test", "software", "results", fileName(name)+".json")
}

func (r *result) write(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func readResult(file string) (*result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return &r, nil
}
