package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// section is the report's section on one scenario.
type section struct {
	scenario string
	about    string
	groups   []group // one per set of parameters
	verdicts []results.Verdict
	charts   []chart
}

// group contains the results of several contestants, to be shown side by side.
type group struct {
	params results.Params
	rows   []*results.Result // in the order of contestants
}

// peer returns the contestant to compare with: client-go, or controller-runtime if client-go was not
// measured.
func (g group) peer() string {
	has := func(name string) bool {
		return slices.ContainsFunc(g.rows, func(row *results.Result) bool { return row.Contestant == name })
	}
	if has(results.ControllerRuntime) && !has(results.ClientGo) {
		return results.ControllerRuntime
	}
	return results.ClientGo
}

// lead returns the row to draw: the one for packed caches if they were measured, otherwise Millrace's. It
// returns nil if neither was measured.
func (g group) lead() *results.Result {
	if row := g.of(results.MillracePacked); row != nil {
		return row
	}
	return g.of(results.Millrace)
}

// metrics returns the metrics that occur in any row.
func (g group) metrics() []string {
	all := map[string]results.Stat{}
	for _, row := range g.rows {
		maps.Copy(all, row.Metrics)
	}
	return results.Ordered(all)
}

// chart is an SVG file in the report.
type chart struct {
	name string
	alt  string
	svg  []byte
}

// about contains a description of each scenario, in display order.
func about() [][2]string {
	return [][2]string{
		{"sync-protobuf", "From the first request until all Pods are cached and a handler was called for each; lists in protobuf."},
		{"sync-json", "From the first request until all custom resources are cached as unstructured objects and a handler was called for each; lists in JSON."},
		{"sync-watchlist", "From the first request until all Pods are cached and a handler was called for each; a streaming list (KEP-3157) in protobuf."},
		{"growth", "The cost per object of a sync, with more and more objects."},
		{"limit", "The smallest memory limit (a cgroup) in which a process lists 20,000 Pods and 5,000 ConfigMaps of 10 KB, watches them, and lists the Pods again after their resource version has expired, found by bisection to 3 %. GOMEMLIMIT is nine tenths of the limit. A run that takes more than four times as long as one without a limit fails."},
		{"footprint", "Memory and goroutines of an informer, an object and an idle handler."},
		{"relist-unchanged", "The resource version expires; a list finds nothing changed."},
		{"relist-changed", "The resource version expires; a list finds one object in a hundred changed."},
		{"watch-protobuf", "MODIFIED events of cached Pods in protobuf, as fast as the contestant reads them."},
		{"watch-json", "MODIFIED events of cached custom resources in JSON, as fast as the contestant reads them."},
		{"latency", "From the server's write of an event to the call of the handler, at a fixed rate."},
		{"fanout", "Changes delivered to many handlers, in process, without network and decoding."},
		{"readers", "One writer, at most ten events ahead, and many readers that list a namespace and visit its objects without reading them, in process. It resembles client-go's BenchmarkSharedIndexInformer, with 50 namespaces."},
		{"workqueue", "Add, get, done; by one worker, by several, and with delays."},
		{"late-handler", "A handler joins while events arrive: how long do the other handlers wait?"},
		{"slow-handler", "One handler, with the policy Coalesce, sleeps through all events: does memory grow?"},
		{"reconcile", "A manager with a controller that looks up the Pod of its request and does nothing else; neither side copies it. Wall time and CPU are from the first request until each Pod was reconciled once. CPU a reconcile at the start begins with the complete cache. CPU an event is for the later changes, from the wire to the reconcile, after the garbage of the start was collected."},
		{"manager", "A manager with a controller of custom resources, which have a Go type, that also watches nine built-in kinds, in protobuf; their events lead to no reconcile. There are as many objects of each kind. The time is from the first request until the first reconcile, which waits for all ten caches."},
		{"packed-sync", "sync-protobuf, with packed caches beside the others. Handlers that want keys (keys=1) read nothing else, so a packed cache makes no objects for them. For other handlers it makes one for each call."},
		{"packed-json", "sync-json, with a packed cache. Handlers want keys."},
		{"packed-watch", "watch-protobuf, with packed caches. Handlers want keys (keys=1) or objects."},
		{"packed-minute", "A thousand MODIFIED events a second, for a minute at --objects 50000. The garbage of the list is collected and returned to the system before, so the peak is the minute's. The collector's CPU is the runtime's estimate."},
		{"packed-read", "Gets from a synced cache: of ten objects in use, and of all in a random order, so that a packed cache decodes them; and a thousand objects by an index. controller-runtime returns copies. Millrace returns shared objects."},
		{"restart", "A process restarts while the server's objects are unchanged: the time until a handler is called, and until the cache is synced. Millrace begins with the snapshot that an earlier informer in the same process wrote; client-go lists. With expired=1, the server no longer has the snapshot's version. Peak memory includes the earlier informer."},
		{"million", "A streaming list of Pods that the server generates as it sends them, so wall time is the server's. Contestants that would need more than half of the machine's memory are skipped. One round; handlers want keys."},
		{"cached-read", "Lookups in a cache that does not change, in process, by one reader. By default controller-runtime copies (copied=1); without, it is told not to. In Millrace the caller copies. Lists by label visit all Pods. Wall time and CPU cover the whole measurement, whose length is fixed."},
	}
}

// sectionsOf groups results into sections: first the known scenarios in display order, then any others in
// file order. Scenarios that were not run have no section.
func sectionsOf(r *results.Results) ([]section, error) {
	var all []section
	at := func(scenario string) int {
		return slices.IndexFunc(all, func(s section) bool { return s.scenario == scenario })
	}
	for _, a := range about() {
		all = append(all, section{scenario: a[0], about: a[1]})
	}
	for i := range r.Results {
		row := &r.Results[i]
		if at(row.Scenario) < 0 {
			all = append(all, section{scenario: row.Scenario})
		}
		all[at(row.Scenario)].add(row)
	}
	all = slices.DeleteFunc(all, func(s section) bool { return len(s.groups) == 0 })
	for _, v := range r.Check(results.Targets()) {
		if v.Row != nil {
			s := &all[at(v.Row.Scenario)]
			s.verdicts = append(s.verdicts, v)
		}
	}
	for i := range all {
		if err := all[i].draw(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *section) add(row *results.Result) {
	i := slices.IndexFunc(s.groups, func(g group) bool { return g.params.Has(row.Params) && row.Params.Has(g.params) })
	if i < 0 {
		i = len(s.groups)
		s.groups = append(s.groups, group{params: row.Params})
	}
	g := &s.groups[i]
	g.rows = append(g.rows, row)
	slices.SortStableFunc(g.rows, func(a, b *results.Result) int { return cmp.Compare(place(a.Contestant), place(b.Contestant)) })
}

// contestants returns the known contestants in display order.
func contestants() []string {
	return []string{
		results.Millrace, results.MillracePacked, results.ClientGoFactory, results.ClientGoInformer, results.ClientGo,
		results.ControllerRuntimeCache, results.ControllerRuntimePacked, results.ControllerRuntime,
		results.Unmarshal, results.Floor,
	}
}

// place returns a contestant's position; unknown contestants come last.
func place(contestant string) int {
	if i := slices.Index(contestants(), contestant); i >= 0 {
		return i
	}
	return len(contestants())
}

// targeted reports whether a figure has a target relative to the peer.
func (s *section) targeted(row *results.Result, metric, peer string) bool {
	return slices.ContainsFunc(s.verdicts, func(v results.Verdict) bool {
		return v.Row == row && v.Target.Metric == metric && v.Target.Against == peer
	})
}

// common returns the parameters shared by all groups, which need not be repeated in every row.
func (s *section) common() results.Params {
	same := maps.Clone(s.groups[0].params)
	maps.DeleteFunc(same, func(name string, value int) bool {
		return slices.ContainsFunc(s.groups, func(g group) bool { return g.params[name] != value })
	})
	return same
}

// own returns a group's values for the parameters that differ between groups. Missing parameters are 0.
func (s *section) own(g group) results.Params {
	common, own := s.common(), results.Params{}
	for _, other := range s.groups {
		for name := range other.params {
			if _, all := common[name]; !all {
				own[name] = g.params[name]
			}
		}
	}
	return own
}
