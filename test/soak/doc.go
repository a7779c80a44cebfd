// Package soak runs a program for weeks of virtual time, checking its resource usage at the end of each day.
//
// The program is a manager with an election, two controllers, events and metrics. It maintains a ConfigMap
// for each of thousands of Pods. A third of the changes replace a Pod with one of a different name, so that
// anything retained by name, UID or version grows visibly. Each day has its faults: closed connections, a
// compacted history, a server that stops, restarts, rejects requests or returns errors, a replica that is
// isolated or stopped, and revoked permissions.
//
// At midnight there are no faults. The copies must then match the Pods, one manager must lead, and memory,
// goroutines, open files, connections and metric series must be at the level of previous days. Leftover
// timers show up as memory.
//
//	go test ./test/soak      # a few short days, few objects; memory is not compared
//	make soak DAYS=30        # 10,000 objects
package soak
