package main

import (
	"maps"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// measures are one contestant's metrics in one round.
type measures map[string]float64

// rounds maps each contestant to its measures, round by round.
type rounds map[string][]measures

// summarize computes results from a job's rounds, in the order of the entrants.
func summarize(j scenario.Job, entrants []entrant, all rounds) []results.Result {
	params := maps.Clone(results.Params(j.Params))
	params[results.Objects] = j.Objects
	var rows []results.Result
	for _, e := range entrants {
		name := e.name
		if len(all[name]) == 0 {
			continue
		}
		row := results.Result{Scenario: j.Name, Params: params, Contestant: name, Metrics: map[string]results.Stat{}}
		for metric := range all[name][0] {
			if values := column(all[name], metric); len(values) == len(all[name]) {
				row.Metrics[metric] = results.StatOf(values)
			}
		}
		others := []string{j.Peer(), results.Floor}
		for _, pair := range pairs(entrants) {
			if pair[0].name == name {
				others = append(others, pair[1].name)
			}
		}
		for _, other := range others {
			if ratios := ratiosOf(all[name], all[other]); other != name && len(ratios) > 0 {
				if row.Ratio == nil {
					row.Ratio = map[string]map[string]float64{}
				}
				row.Ratio[other] = map[string]float64{}
				for metric, ratio := range ratios {
					row.Ratio[other][metric] = ratio.Median
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func column(of []measures, metric string) (values []float64) {
	for _, m := range of {
		if value, ok := m[metric]; ok {
			values = append(values, value)
		}
	}
	return values
}

// ratiosOf divides round by round, so that noise on the machine affects both sides. If the other side's value
// is zero, the metric has no ratio.
func ratiosOf(of, to []measures) map[string]results.Stat {
	ratios := map[string]results.Stat{}
	if len(of) == 0 {
		return ratios
	}
	for metric := range of[0] {
		if ratio, ok := results.Ratios(column(of, metric), column(to, metric)); ok {
			ratios[metric] = ratio
		}
	}
	return ratios
}
