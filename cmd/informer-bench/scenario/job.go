package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

// DefaultObjects is how many objects the targets are set for.
const DefaultObjects = 50_000

// Parameters that are resolved before a contestant sees them.
const (
	scale          = "scale_percent"   // of the number of objects
	changedPercent = "changed_percent" // of the objects
)

// Job is a variant of a scenario with every number settled.
type Job struct {
	Scenario
	Objects int
	Params  protocol.Params // what tells the variant from others of its scenario
}

// Jobs settles the numbers for that many objects.
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
		if s.PerObject > 0 {
			j.Params[Events] = max(1, int(float64(j.Objects)*s.PerObject))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// Lists is how many lists a contestant asks for that does what the scenario is
// about; negative where there is no saying.
func (j Job) Lists() int {
	switch {
	case j.Script == Restart, j.Params.On(Replicas):
		return -1
	case j.Params.On(WatchList):
		return 0
	case j.Script == Relist:
		return 2
	}
	return 1
}

// Title is the scenario and its parameters in a line.
func (j Job) Title() string {
	parts := []string{fmt.Sprintf("%s: %d objects", j.Name, j.Objects)}
	for _, name := range slices.Sorted(maps.Keys(j.Params)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, j.Params[name]))
	}
	return strings.Join(parts, ", ")
}
