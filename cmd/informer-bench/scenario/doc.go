// Package scenario is what informer-bench measures: the table of scenarios, and
// of each the part that is the same for all contestants.
//
// # Usage
//
// The harness asks [All] or [Choose] for scenarios and [Scenario.Jobs] for what
// is to be run. A contestant keeps a cache of the server's objects in the
// scenarios of [Following], and calls the function that bears a scenario's name
// in the others: [Fanout], [ReadWhile], [WorkQueue], [Join], [Oversleep],
// [Footprint], [Reconciles.Run] and [Lookups.Measure]. Each takes the steps that
// differ between contestants, and sets the marks.
//
// To add a scenario, add it to the table, write its common part here, and call
// that from each contestant in bench/contestants.
//
// # Failure
//
// A step that fails ends the scenario with its error, which ends the run.
package scenario
