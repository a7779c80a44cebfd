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

// page is a Markdown document being written.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// markdown returns the whole report.
func markdown(r *results.Results, sections []section, drawing []byte) []byte {
	p := new(page)
	p.line("# Benchmarks\n")
	p.line("Millrace, client-go and controller-runtime do the same work on one machine.")
	p.line("`informer-bench report` makes this page from the [results of one run](%s). Do not edit it.\n", linkTo(data))
	p.overview(figures(sections), drawing)
	p.packed(r)
	for i := range sections {
		p.section(&sections[i])
	}
	p.guide(&r.Env)
	p.environment(&r.Env)
	p.targets(r, sections)
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

// guide explains how to read the tables, and their limitations.
func (p *page) guide(env *results.Env) {
	p.line(`## How to read this

Contestants are separate programs. They take turns to do the same work against one server
process, which has encoded everything beforehand. The harness compares their caches at the
end; if two differ, the run fails.

A cell has the median over the rounds, [minimum – maximum], and the ratio (×) to
client-go, or to controller-runtime if client-go cannot do the work. The ratio is the
median of the quotients round by round: below 1 is better for costs, above 1 for rates.

` + "`clientgo+millrace`" + ` and ` + "`controllerruntime+millrace`" + ` are the adapters. Contestants with
` + "`packed`" + ` in their names cache bytes. ` + "`floor`" + ` reads the same bytes and discards them.
` + "`unmarshal`" + ` reads them, calls the generated ` + "`Unmarshal`" + ` of k8s.io/api for each Pod, in one
goroutine, and keeps the Pods and nothing else.

There are three loads of Pods. By default, Pods are replicas of 200 applications. Each Pod
started at another time, and the kubelet's entry in managedFields contains the Pod's IP.
With ` + "`alike=1`" + `, all replicas of an application started in the same second, and the entry
does not contain the IP, so the kubelet's entries and the conditions of replicas are
equal, as in a cluster that runs few images. With ` + "`hostile=1`" + `, nothing repeats in the
objects; custom resources have this load and the default one.

CPU is user and system time, peak RSS is the kernel's high-water mark, live heap is the
heap after two collections. K, M and G are powers of 1000. In charts a bar ends at the
ratio, and the line at 1 is the peer; rates are inverted, so shorter is better.

- Absolute figures are those of this machine at that time; compare ratios.`)
	if env.Cores > 0 && env.Cores <= 4 {
		p.line("- With %d cores, wall time includes the server's share. CPU time does not.", env.Cores)
	}
	p.line("- Ignore differences smaller than [minimum – maximum].")
	if env.Rounds < 5 {
		p.line("- %s: minimum and maximum say little about the spread.", plural(env.Rounds, "round"))
	}
	p.line(`- The server is on the same host: no latency, no bandwidth limit, no TLS.
- Objects are generated (internal/objects). Yours differ.
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

// cell escapes text for use in a table cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
