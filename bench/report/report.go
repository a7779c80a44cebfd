package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Paths of the report and its files, relative to the root of the repository.
const (
	report   = "results/benchmarks.md"
	data     = "bench/out/results.json"
	overview = "bench/out/overview.svg"
	charts   = "bench/out/charts"
)

// write writes the report to a directory and returns the names of the files written.
func write(r *results.Results, dir string) ([]string, error) {
	sections, err := sectionsOf(r)
	if err != nil {
		return nil, err
	}
	into := filepath.Join(dir, filepath.FromSlash(charts))
	page := filepath.Join(dir, filepath.FromSlash(report))
	if err := errors.Join(os.MkdirAll(into, 0o755), os.MkdirAll(filepath.Dir(page), 0o755)); err != nil {
		return nil, fmt.Errorf("make the directories of the report: %w", err)
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
	drawing := picture(figures(sections), &r.Env)
	if len(drawing) > 0 {
		if err := put(filepath.Join(dir, filepath.FromSlash(overview)), drawing); err != nil {
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
	return written, put(page, markdown(r, sections, drawing))
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

// link returns the relative URL of a chart in the report.
func (c chart) link() string { return linkTo(path.Join(charts, c.name)) }

// linkTo returns the relative URL of a file in the report, which is one folder below the root.
func linkTo(file string) string { return path.Join("..", file) }
