// Package protocol defines the messages between informer-bench and its contestants. Each message is a line of
// JSON: commands arrive on the contestant's stdin, responses are written to its stdout.
//
//	harness                         contestant
//	                            ←   {"event":"ready"}            all set up, nothing begun
//	{"scenario":"sync-protobuf",…}→
//	                            ←   {"event":"mark","name":"synced"}
//	{"go":true}                 →                                clocks were read; go on
//	                            ←   {"event":"result","result":{"objects":50000,"digest":"…",…}}
//	(end of stdin)              →                                the contestant exits
//
// At a mark the harness asks the operating system for the contestant's CPU time and peak memory, and notes
// the wall time. The contestant waits for this, so its own reporting is not measured.
//
// # Usage
//
// A contestant's main function calls Main with one function per scenario.
//
// # Failure
//
// If a contestant fails, it sends the error in an event, which aborts the run.
package protocol
