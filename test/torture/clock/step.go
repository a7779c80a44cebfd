//go:build clocksteps && linux && cgo

package clock

/*
#cgo CFLAGS: -O2 -fno-stack-protector
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

typedef int (*reader)(clockid_t, struct timespec *);

static reader kernels;
static _Atomic int64_t ahead; // in nanoseconds

// stepped runs on a Go runtime stack, so it must not call anything but the kernel's function.
static int stepped(clockid_t id, struct timespec *t) {
	int failed = kernels(id, t);
	if (id == CLOCK_REALTIME && !failed) {
		int64_t by = atomic_load(&ahead);
		t->tv_sec += by / 1000000000;
		t->tv_nsec += by % 1000000000;
		if (t->tv_nsec < 0) {
			t->tv_nsec += 1000000000;
			t->tv_sec--;
		} else if (t->tv_nsec >= 1000000000) {
			t->tv_nsec -= 1000000000;
			t->tv_sec++;
		}
	}
	return failed;
}

static uintptr_t before(uintptr_t theirs) {
	kernels = (reader)theirs;
	return (uintptr_t)stepped;
}

static void set(int64_t by) { atomic_store(&ahead, by); }
*/
import "C"

import (
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

//go:linkname vdsoClockgettimeSym runtime.vdsoClockgettimeSym
var vdsoClockgettimeSym uintptr

var install = sync.OnceValue(func() error {
	if vdsoClockgettimeSym == 0 {
		return ErrFixed // the runtime uses system calls
	}
	vdsoClockgettimeSym = uintptr(C.before(C.uintptr_t(vdsoClockgettimeSym)))
	return nil
})

// Set sets the offset of this process's wall clock from the machine's.
func Set(ahead time.Duration) error {
	if err := install(); err != nil {
		return err
	}
	C.set(C.int64_t(ahead))
	return nil
}
