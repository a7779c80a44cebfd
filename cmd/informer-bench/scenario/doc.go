// Package scenario defines the scenarios of informer-bench: their table, and the part of each scenario
// that is the same for all contestants.
//
// # Usage
//
// The harness calls [All] or [Choose] for scenarios and [Scenario.Jobs] for the jobs to run. In the
// scenarios of [Following], a contestant keeps a cache of the server's objects. In the others it calls
// the function named after the scenario: [Fanout], [ReadWhile], [WorkQueue], [Join], [Oversleep],
// [Footprint], [Reconciles.Run], [ManagerStart] and [Lookups.Measure]. These functions take the steps that differ
// between contestants, and set the marks.
//
// To add a scenario, add it to the table, write its common part in this package, and call the common
// part from each contestant in bench/contestants.
//
// # Failure
//
// If a step fails, the scenario returns its error, which ends the run.
package scenario
