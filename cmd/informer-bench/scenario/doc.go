// Package scenario defines informer-bench's scenarios: a table that lists them, and the code that all
// contestants share.
//
// # Usage
//
// The harness calls [All] or [Choose] for scenarios and [Scenario.Jobs] for the jobs to run. In the scenarios
// of [Following], a contestant keeps a cache of the server's objects. In the others, the contestant calls the
// function named after the scenario: [Fanout], [ReadWhile], [WorkQueue], [Join], [Oversleep], [Footprint],
// [Reconciles.Run], [ManagerStart] and [Lookups.Measure]. The contestant passes in the steps that are
// specific to it, and the function sets the marks.
//
// To add a scenario, add it to the table, implement the common code in this package, and call that code from
// each contestant in bench/contestants.
//
// # Failure
//
// If a step fails, the scenario returns its error and the run stops.
package scenario
