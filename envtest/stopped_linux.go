package envtest

import "golang.org/x/sys/unix"

// awaitStop returns when every thread of the child has stopped after a SIGSTOP. kill(2) returns earlier,
// and on a busy machine other threads may still respond to requests. It leaves the notification pending
// for the next call, and for the goroutine that waits for the process to exit.
func awaitStop(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}
