package workqueue

import "sync"

// lock is a mutex for critical sections far shorter than a sleep. A goroutine that
// finds it taken first stays away for a while, then for twice as long each time it is
// still taken, and only then sleeps.
//
// Staying away makes a contended queue fast. When two cores take turns at each step,
// every step first fetches the lock, the lists and the items from the other core's
// cache, which takes many times as long as the step itself. While one core stays
// away, the other takes hundreds of steps in its own cache.
//
// The mutex beneath keeps it fair: a goroutine that sleeps gets its turn after a
// millisecond, whatever else tries.
type lock struct{ sync.Mutex }

// Turns of an empty loop, of half a nanosecond each: from half a microsecond,
// about ten critical sections, to 32 microseconds, by when a sleep is cheaper. With
// one processor a goroutine enters the loop only if the holder was preempted within
// its section; that costs 64 microseconds in all, once.
const (
	firstPause = 1_000
	lastPause  = 64_000
)

// Lock takes the lock.
func (l *lock) Lock() {
	if !l.TryLock() {
		l.wait()
	}
}

func (l *lock) wait() {
	for pause := firstPause; pause <= lastPause; pause *= 2 {
		for range pause {
		}
		if l.TryLock() {
			return
		}
	}
	l.Mutex.Lock()
}
