package workqueue

import "sync"

// lock is a mutex for critical sections that are much shorter than a sleep. A goroutine that finds it
// locked pauses, doubles the pause each time the mutex is still locked, and finally sleeps.
//
// Backing off makes a contended queue fast. When two cores alternate, every step first has to fetch the lock,
// the lists and the items from the other core's cache, which takes many times longer than the step itself.
// While one core backs off, the other performs hundreds of steps in its own cache.
//
// The underlying mutex keeps it fair: a sleeping goroutine gets the lock after a millisecond, no matter how
// many others try.
type lock struct{ sync.Mutex }

// Pauses are measured in iterations of an empty loop, half a nanosecond each. They range from half a
// microsecond, or about ten critical sections, to 32 microseconds, beyond which sleeping is cheaper. On a
// single CPU, a goroutine enters the loop only if the lock's holder was preempted in its critical section;
// that costs 64 microseconds in total, and only once.
const (
	firstPause = 1_000
	lastPause  = 64_000
)

// Lock acquires the lock.
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
