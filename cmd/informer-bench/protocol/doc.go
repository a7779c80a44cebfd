// Package protocol defines the messages between informer-bench and its contestants. The messages are
// lines of JSON: commands on the contestant's stdin and answers on its stdout.
//
//	harness                         contestant
//	                            ←   {"event":"ready"}            all set up, nothing begun
//	{"scenario":"sync-protobuf",…}→
//	                            ←   {"event":"mark","name":"synced"}
//	{"go":true}                 →                                clocks were read; go on
//	                            ←   {"event":"result","result":{"objects":50000,"digest":"…",…}}
//	(end of stdin)              →                                the contestant exits
//
// At a mark the harness reads the contestant's wall and CPU clocks and its peak memory from the
// operating system. Meanwhile the contestant waits, so its reporting is not measured.
//
// # Usage
//
// A contestant's main function calls Main with a function per scenario.
//
// # Failure
//
// A contestant that fails reports the error in an event, which ends the run.
package protocol
