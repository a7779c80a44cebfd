package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// resultsLink is where the results usually are, as links have it.
const resultsLink = "bench/out/results.json"

// charts is where the charts are, below the report, as links have it.
const charts = "bench/out/charts"

// write writes the report into a directory, and returns what it wrote.
func write(r *results.Results, dir string) ([]string, error) {
	sections, err := sectionsOf(r)
	if err != nil {
		return nil, err
	}
	into := filepath.Join(dir, filepath.FromSlash(charts))
	if err := os.MkdirAll(into, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the charts: %w", err)
	}
	if err := removeCharts(into); err != nil {
		return nil, fmt.Errorf("remove the charts of an earlier report: %w", err)
	}
	var written []string
	put := func(name string, content []byte) error {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		written = append(written, name)
		return nil
	}
	drawing := picture(figures(r, sections), &r.Env)
	if len(drawing) > 0 {
		if err := put(filepath.Join(dir, filepath.FromSlash(overviewLink)), drawing); err != nil {
			return written, err
		}
	}
	for _, s := range sections {
		for _, c := range s.charts {
			if err := put(filepath.Join(into, c.name), c.svg); err != nil {
				return written, err
			}
		}
	}
	return written, put(filepath.Join(dir, "BENCHMARKS.md"), markdown(r, sections, drawing))
}

func removeCharts(dir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return err
	}
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// link is the address of a chart in the report.
func (c chart) link() string { return path.Join(charts, c.name) }
