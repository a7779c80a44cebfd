package workqueue

import "sync"

// lock is a mutex for critical sections far shorter than a sleep. Who finds it
// taken first stays away for a while, and for twice as long each time it is
// taken still; only then does it sleep.
//
// Staying away is what makes a contended queue fast. On two cores that take
// turns at each step, every step begins with fetching the lock, the lists and
// the items from the other core's cache, which takes many times as long as the
// step itself. While one core stays away, the other takes hundreds of steps in
// its own cache.
//
// The mutex beneath keeps it fair: who has gone to sleep gets its turn after a
// millisecond, whoever else tries.
type lock struct{ sync.Mutex }

// Turns of an empty loop, of half a nanosecond each: from half a microsecond,
// about ten critical sections, to 32 microseconds, by when a sleep is cheaper.
// With one processor the loop is entered only by who finds the holder preempted
// within its section, and costs it the sum of 64 microseconds once.
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
