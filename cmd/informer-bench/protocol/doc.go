// Package protocol is what informer-bench and its contestants say to each
// other: lines of JSON, commands on the contestant's stdin and answers on its
// stdout.
//
//	harness                         contestant
//	                            ←   {"event":"ready"}            all set up, nothing begun
//	{"scenario":"sync-protobuf",…}→
//	                            ←   {"event":"mark","name":"synced"}
//	{"go":true}                 →                                clocks were read; go on
//	                            ←   {"event":"result","result":{"objects":50000,"digest":"…",…}}
//	(end of stdin)              →                                the contestant exits
//
// A mark is a point at which the harness reads the contestant's wall and CPU
// clocks and its peak memory from the operating system. The contestant does
// nothing until it is told to go on, so that what it does to give account of
// itself is not measured.
//
// # Usage
//
// A contestant's main is one call of Main with a function per scenario.
//
// # Failure
//
// A contestant that fails says so in an event, which ends the run.
package protocol
