package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/millrace-dev/millrace/bench/protocol"
)

// resultsVersion is that of the file's layout.
const resultsVersion = 1

// Results is the results file.
type Results struct {
	Version int      `json:"v"`
	Env     Env      `json:"env"`
	Results []Result `json:"results"`
}

// Env is under what circumstances was measured.
type Env struct {
	Date     string            `json:"date"` // RFC 3339
	Command  string            `json:"command"`
	Go       string            `json:"go"`
	OS       string            `json:"os"`
	Arch     string            `json:"arch"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Memory   uint64            `json:"memory_bytes"`
	Rounds   int               `json:"rounds"`
	Versions map[string]string `json:"versions"` // of the contestants
}

// Result is one contestant in one variant of a scenario.
type Result struct {
	Scenario   string          `json:"scenario"`
	Params     protocol.Params `json:"params"` // with the number of objects
	Contestant string          `json:"contestant"`

	// Metrics are over the rounds. A name ends in its unit.
	Metrics map[string]Spread `json:"metrics"`

	// Ratio is to another contestant: the median of the ratios of each round.
	Ratio map[string]map[string]float64 `json:"ratio,omitempty"`
}

// Spread is a metric over the rounds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spreadOf needs at least one value.
func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{Min: sorted[0], Median: median(sorted), Max: sorted[len(sorted)-1]}
}

// median of sorted values: between the two in the middle, if there are two.
func median(sorted []float64) float64 {
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// measures are the metrics of one contestant in one round.
type measures map[string]float64

// rounds are the measures of each contestant, round by round.
type rounds map[string][]measures

// summarize makes results of the rounds of a job, in the order of its
// contestants.
func summarize(j job, all rounds) []Result {
	params := maps.Clone(j.params)
	params["objects"] = j.objects
	var results []Result
	for _, name := range j.contestants {
		if len(all[name]) == 0 {
			continue
		}
		r := Result{Scenario: j.name, Params: params, Contestant: name, Metrics: map[string]Spread{}}
		for metric := range all[name][0] {
			if values := column(all[name], metric); len(values) == len(all[name]) {
				r.Metrics[metric] = spreadOf(values)
			}
		}
		for _, other := range []string{clientGo, floor} {
			if ratios := ratiosOf(all[name], all[other]); other != name && len(ratios) > 0 {
				if r.Ratio == nil {
					r.Ratio = map[string]map[string]float64{}
				}
				r.Ratio[other] = map[string]float64{}
				for metric, spread := range ratios {
					r.Ratio[other][metric] = spread.Median
				}
			}
		}
		results = append(results, r)
	}
	return results
}

func column(of []measures, metric string) (values []float64) {
	for _, m := range of {
		if value, ok := m[metric]; ok {
			values = append(values, value)
		}
	}
	return values
}

// ratiosOf divides round by round, so that what the machine was doing at the
// time hits both sides. Metrics that are zero on the other side have no ratio.
func ratiosOf(of, to []measures) map[string]Spread {
	pairs := map[string][]float64{}
	for round := range min(len(of), len(to)) {
		for metric, value := range of[round] {
			if other := to[round][metric]; other != 0 {
				pairs[metric] = append(pairs[metric], value/other)
			}
		}
	}
	ratios := map[string]Spread{}
	for metric, values := range pairs {
		ratios[metric] = spreadOf(values)
	}
	return ratios
}

// writeResults replaces the file.
func writeResults(path string, results Results) error {
	body, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// readResults reads a file that writeResults wrote.
func readResults(path string) (Results, error) {
	var results Results
	body, err := os.ReadFile(path)
	if err != nil {
		return results, fmt.Errorf("read the results: %w", err)
	}
	if err := json.Unmarshal(body, &results); err != nil {
		return results, fmt.Errorf("read the results in %s: %w", path, err)
	}
	if results.Version != resultsVersion {
		return results, fmt.Errorf("read the results in %s: version is %d, want %d: measure again", path, results.Version, resultsVersion)
	}
	return results, nil
}
