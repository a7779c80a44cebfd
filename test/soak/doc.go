// Package soak runs a program for weeks of virtual time and looks at what it holds at the
// end of each day.
//
// The program is a manager with an election, two controllers, events and metrics. It keeps
// a ConfigMap for each of thousands of Pods. A third of the Pods' changes replace one by
// another under a name that was never used before, so that whatever is kept by name, UID or
// version is seen to grow. Each day has its troubles: cut connections, a history that is
// compacted, a server that goes, starts again, refuses or answers with errors, a replica that is
// isolated or stopped, rights that are taken away.
//
// At midnight all is well and quiet. The copies must equal the Pods then, one manager must
// lead, and memory, goroutines, open files, connections and series of metrics must be what they
// were on the days before. A timer that is left over counts as memory.
//
//	go test ./test/soak      # few and short days, few objects; memory is not compared
//	make soak DAYS=30        # 10,000 objects
package soak
