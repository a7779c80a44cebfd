package envtest

import "golang.org/x/sys/unix"

// awaitStop returns when every thread of the child process has stopped after a SIGSTOP.
// kill(2) returns before that: on a busy machine other threads still answer requests.
// The notice is left where it is, so that the next call finds it, too, and whoever
// waits for the end of the process is not disturbed.
func awaitStop(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}
