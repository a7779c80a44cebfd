package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

// DefaultObjects is the number of objects assumed by the targets.
const DefaultObjects = 50_000

// These parameters are resolved before they reach a contestant.
const (
	scale            = "scale_percent"      // percentage of the number of objects
	changedPercent   = "changed_percent"    // of the objects
	configMapPercent = "config_map_percent" // ConfigMaps, of the number of objects
)

// Job is a variant of a scenario with all numbers resolved.
type Job struct {
	Scenario
	Objects int
	Params  protocol.Params // the parameters of the variant
}

// Jobs returns a job for each variant, for the given number of objects.
func (s Scenario) Jobs(objects int) []Job {
	var jobs []Job
	for _, variant := range s.Variants {
		j := Job{Scenario: s, Objects: objects, Params: maps.Clone(variant)}
		if percent, ok := j.Params[scale]; ok {
			delete(j.Params, scale)
			j.Objects = max(1, objects*percent/100)
		}
		if percent, ok := j.Params[changedPercent]; ok {
			delete(j.Params, changedPercent)
			j.Params[Changed] = max(1, j.Objects*percent/100)
		}
		if percent, ok := j.Params[configMapPercent]; ok {
			delete(j.Params, configMapPercent)
			j.Params[ConfigMaps] = max(1, j.Objects*percent/100)
		}
		if s.PerObject > 0 {
			j.Params[Events] = max(1, int(float64(j.Objects)*s.PerObject))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// Lists returns the number of lists that a correct contestant requests. It is negative if unknown.
func (j Job) Lists() int {
	switch {
	case j.Script == Restart, j.Params.On(Replicas):
		return -1
	case j.Params.On(Kinds):
		return j.Params[Kinds]
	case j.Params.On(WatchList):
		return 0
	case j.Script == Relist && j.Params.On(ConfigMaps):
		return 3
	case j.Script == Relist:
		return 2
	}
	return 1
}

// Title returns the scenario and its parameters in one line.
func (j Job) Title() string {
	parts := []string{fmt.Sprintf("%s: %d objects", j.Name, j.Objects)}
	for _, name := range slices.Sorted(maps.Keys(j.Params)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, j.Params[name]))
	}
	return strings.Join(parts, ", ")
}
