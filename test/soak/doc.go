// Package soak runs a program for weeks of virtual time and checks its resources at the end of each day.
//
// The program is a manager with an election, two controllers, events and metrics. It keeps a ConfigMap
// for each of thousands of Pods. A third of the changes replace a Pod by another under a new name, so
// that anything retained by name, UID or version grows visibly. Each day brings faults: cut connections,
// a compacted history, a server that stops, restarts, rejects requests or returns errors, a replica that
// is isolated or stopped, and revoked rights.
//
// At midnight there are no faults. The copies must then equal the Pods, one manager must lead, and
// memory, goroutines, open files, connections and metric series must be as on previous days. Leftover
// timers show up as memory.
//
//	go test ./test/soak      # few and short days, few objects; memory is not compared
//	make soak DAYS=30        # 10,000 objects
package soak
