package torture

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount makes a file system in memory that is not attached anywhere: it is reached through the file
// descriptor of this process, and ends with its users. It needs Linux 5.2 and CAP_SYS_ADMIN.
func mount(size int) (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "size", fmt.Sprint(size)); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("fsconfig: %w", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(root), "tmpfs"), nil
}
