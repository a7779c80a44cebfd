package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/test/software/cluster"
)

// comparison is the result of all rounds with Kubernetes' controllers.
type comparison struct {
	Date        string
	Revision    string // as in result
	Rounds      []*round
	Differences []string // between a round's final state and the first round's
}

const controllersName = "kubernetes"

// shown is the maximum number of differences shown per round.
const shown = 10

// add adds a round.
func (c *comparison) add(r *round) {
	c.Rounds = append(c.Rounds, r)
	all := cluster.Differences(c.Rounds[0].state, r.state)
	for _, d := range all[:min(len(all), shown)] {
		c.Differences = append(c.Differences, fmt.Sprintf("round %d (%s): %s", len(c.Rounds), r.Informers, d))
	}
	if more := len(all) - shown; more > 0 {
		c.Differences = append(c.Differences, fmt.Sprintf("round %d (%s): %d more", len(c.Rounds), r.Informers, more))
	}
}

// different returns an error if the rounds ended in different states.
func (c *comparison) different() error {
	if len(c.Differences) == 0 {
		return nil
	}
	return fmt.Errorf("the rounds ended in different states:\n%s", strings.Join(c.Differences, "\n"))
}

func (c *comparison) write(file string) error {
	text, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func readComparison(file string) (*comparison, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var c comparison
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return &c, nil
}

// spread holds the median, minimum and maximum over the rounds with one kind of informer.
type spread struct{ median, least, most float64 }

func (s spread) String() string {
	return fmt.Sprintf("%s (%s-%s)", short(s.median), short(s.least), short(s.most))
}

// short formats a number with at least three significant digits.
func short(v float64) string {
	if v < 100 && v != float64(int(v)) {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// of returns the spread of a figure over the rounds with one kind of informer.
func (c *comparison) of(informers string, figure func(*round) float64) spread {
	var all []float64
	for _, r := range c.Rounds {
		if r.Informers == informers {
			all = append(all, figure(r))
		}
	}
	slices.Sort(all)
	return spread{all[len(all)/2], all[0], all[len(all)-1]}
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// table returns a table of the figures with both kinds of informers.
func (c *comparison) table() string {
	var b strings.Builder
	b.WriteString("| of the process | client-go's informers | Millrace's |\n|---|---|---|\n")
	row := func(name string, figure func(*round) float64) {
		fmt.Fprintf(&b, "| %s | %v | %v |\n", name, c.of("stock", figure), c.of("millrace", figure))
	}
	row("live heap before there are objects, MiB", func(r *round) float64 { return megabytes(r.Empty) })
	row("live heap at the end, MiB", func(r *round) float64 { return megabytes(r.Heap) })
	row("peak RSS, MiB", func(r *round) float64 { return megabytes(r.Peak) })
	row("CPU, s", func(r *round) float64 { return r.CPU })
	row("until all is done and quiet, s", func(r *round) float64 { return r.Seconds })
	row("objects at the end", func(r *round) float64 { return float64(r.Objects) })
	verbs := map[string]bool{}
	for _, r := range c.Rounds {
		for request := range r.Requests {
			verb, _, _ := strings.Cut(request, " ")
			verbs[verb] = true
		}
	}
	row("API requests", func(r *round) float64 { return float64(r.asked("")) })
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		row("- "+verb, func(r *round) float64 { return float64(r.asked(verb)) })
	}
	return b.String()
}

// asked returns the number of requests with a verb, or of all requests if verb is empty.
func (r *round) asked(verb string) (n int) {
	for request, count := range r.Requests {
		if verb == "" || strings.HasPrefix(request, verb+" ") {
			n += count
		}
	}
	return n
}

// uneven returns the requests, by verb and resource, that were made more often with one kind of informer than
// with the other. The count in each of its rounds must exceed the count in all of the other's, by more than
// ten and by more than a tenth.
func (c *comparison) uneven() (all []string) {
	names := map[string]bool{}
	for _, r := range c.Rounds {
		for name := range r.Requests {
			names[name] = true
		}
	}
	for name := range names {
		of := func(r *round) float64 { return float64(r.Requests[name]) }
		s, m := c.of("stock", of), c.of("millrace", of)
		more := max(s.median-m.median, m.median-s.median)
		if (s.least > m.most || m.least > s.most) && more > 10 && more > max(s.median, m.median)/10 {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(a, b) })
	return all
}

// figureCauses explains the differences between the processes' figures.
const figureCauses = `
- Live heap: the data structures for sharing equal parts take memory before any object exists. The objects then take
  less, because equal parts are stored once. This requires ` + "`clientgo.WithKeep`" + `: objects that pass through a transform
  are not shared. With a transform, on 2026-11-22, the heap was 23.7 MiB before any object existed, and 40.6 to 41.0
  at the end.
- If the ranges of two columns overlap, the run shows no difference. CPU, time and the number of requests depend on how
  many changes a controller sees at once and on how often two controllers write the same object, which varies between
  rounds. The machine also did other work.
`

// section returns the section on the comparison in results/software.md.
func (c *comparison) section() string {
	return fmt.Sprintf(`
## Kubernetes' own controllers and scheduler

The controllers of Kubernetes %[1]s's kube-controller-manager, all that are on by default and need no key, and its
kube-scheduler run with client-go's informers and with those of `+"`adapters/clientgo`"+`; only the factories differ. Both
programs drop managed fields: with client-go's informers in a transform, with Millrace's while decoding. They use a real
kube-apiserver %[1]s with simulated Nodes. About 2,000 objects are created, rolled out, scaled and deleted: Deployments,
StatefulSets, a DaemonSet, Jobs, Services, quotas, budgets, chains of owners and whole namespaces
(`+"`test/software/cluster`"+`).

There were %[2]d rounds each, alternating, each with a new API server and a new process. The content of the cluster at
the end, except events, leases and random names, times and addresses, was
%[3]s. The table shows the median and the range of the rounds, for the process that runs the
controllers and the scheduler. Measured on %[4]s at %[5]s by
`+"`make software ONLY=kubernetes`"+`. CI does not compile it; it only checks that the imported packages exist.

%[6]s`, minor, len(c.Rounds)/2, c.agreement(), c.Date, c.Revision, c.table()+figureCauses+c.explain())
}

// agreement describes whether all rounds ended in the same state.
func (c *comparison) agreement() string {
	if len(c.Differences) == 0 {
		return "the same after every round"
	}
	return "not the same: see below"
}

// explain lists the uneven requests and the differences between final states.
func (c *comparison) explain() string {
	var b strings.Builder
	for _, name := range c.uneven() {
		of := func(r *round) float64 { return float64(r.Requests[name]) }
		fmt.Fprintf(&b, "- `%s`: %v and %v. The cause is not known yet.\n", name, c.of("stock", of), c.of("millrace", of))
	}
	for _, d := range c.Differences {
		fmt.Fprintf(&b, "- the state at the end: %s\n", d)
	}
	return b.String()
}
