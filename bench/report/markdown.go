package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// page is a Markdown document that is being written.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// markdown is the whole report.
func markdown(r *results.Results, sections []section, drawing []byte) []byte {
	p := new(page)
	p.line("# Benchmarks\n")
	p.line("Millrace, client-go and controller-runtime at the same work on one machine. Made by")
	p.line("`informer-bench report` from [one run](%s); not to be edited.\n", linkTo(data))
	p.overview(r, figures(r, sections), drawing)
	p.targets(r)
	for i := range sections {
		p.section(&sections[i])
	}
	p.guide(&r.Env)
	p.environment(&r.Env)
	p.missing(r)
	return p.Bytes()
}

func (p *page) environment(env *results.Env) {
	p.line("## Machine and versions\n")
	p.line("| | |\n|---|---|")
	p.line("| date | %s |", env.Date.UTC().Format(time.DateTime+" MST"))
	p.line("| processor | %s, %d cores |", cell(env.CPU), env.Cores)
	if env.MemoryBytes > 0 {
		p.line("| memory | %.1f GiB |", float64(env.MemoryBytes)/(1<<30))
	}
	p.line("| system | %s/%s |", env.OS, env.Arch)
	p.line("| Go | %s |", env.Go)
	for _, name := range slices.Sorted(maps.Keys(env.Versions)) {
		p.line("| %s | %s |", cell(name), cell(env.Versions[name]))
	}
	p.line("| rounds | %d |", env.Rounds)
	p.line("\n```sh\n%s\n```\n", env.Command)
	for _, note := range env.Notes {
		p.line("> %s\n", note)
	}
}

// guide says how to read the tables, and what not to read into them.
func (p *page) guide(env *results.Env) {
	p.line(`## How to read this

Contestants are programs of their own. They do the same work against the same
server, a process of its own that has everything encoded beforehand, and take
turns: one round of each, then the next round. What each has in its cache at the
end is compared, and a run in which two differ fails.

A cell has the median over the rounds, [its minimum and maximum], and below them the
ratio (×) to client-go, or to controller-runtime where client-go has no such thing:
the median of the quotients round by round. Then follow the targets. One against
` + "`floor`" + ` is a ratio to a program that reads the same bytes and discards them. Targets
are set for --objects 50000; with fewer objects, fixed costs weigh more.

` + "`clientgo+millrace`" + ` and ` + "`controllerruntime+millrace`" + ` are the adapters: Millrace
behind the interfaces of the other, by one line. ` + "`millrace-packed`" + ` and
` + "`controllerruntime+millrace-packed`" + ` cache bytes. ` + "`hostile=1`" + ` marks objects in which
nothing repeats, so that there is nothing to share; the target is to be no worse than
client-go. CPU is user and system time of the process, peak RSS the kernel's
high-water mark, live heap what two collections leave. K, M and G are powers of 1000.

In charts a bar ends at the ratio, the line at 1 is the peer, and the notch is the
target. Rates are turned round there (time, not events in a time), so that shorter is
better everywhere.

## What not to read into it

- Absolute figures are those of this machine in that hour, and show the order of
  magnitude. The ratios are what can be compared with those of another run.`)
	if env.Cores > 0 && env.Cores <= 4 {
		p.line(`- With %d cores, server and contestant compete for them: wall time has the
  server's share in it. CPU time has not.`, env.Cores)
	}
	p.line(`- A virtual or shared machine has neighbours. They show as a wide [min – max]; a
  ratio suffers less, since both of its sides had the same neighbours, but a
  difference smaller than the spread is none.`)
	if env.Rounds < 5 {
		p.line("- %s: min and max are nearly all there is to say about the spread.", plural(env.Rounds, "round"))
	}
	p.line(`- The server is on the same host: no latency, no bandwidth limit, no TLS.
- Objects are made from a seed to be like those of a real cluster
  (apiservertest/objects says in which respects). Yours differ.
`)
}

func plural(n int, what string) string {
	if n == 1 {
		return "One " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (p *page) section(s *section) {
	p.line("## %s\n", s.scenario)
	if s.about != "" {
		p.line("%s\n", s.about)
	}
	if common := s.common(); len(common) > 0 {
		p.line("Parameters: %s\n", common)
	}
	for _, c := range s.charts {
		p.line("![%s](%s)\n", c.alt, c.link())
	}
	p.table(s)
}

// missing counts the targets that the results say nothing about, by scenario.
func (p *page) missing(r *results.Results) {
	var scenarios []string
	count := map[string]int{}
	for _, v := range r.Check(results.Targets()) {
		if v.Measured {
			continue
		}
		if count[v.Target.Scenario] == 0 {
			scenarios = append(scenarios, v.Target.Scenario)
		}
		count[v.Target.Scenario]++
	}
	if len(scenarios) == 0 {
		return
	}
	p.line("## Targets that were not measured in this run\n")
	for _, scenario := range scenarios {
		p.line("- %s: %s", scenario, plural(count[scenario], "target"))
	}
}

// cell is text that does not end the cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
