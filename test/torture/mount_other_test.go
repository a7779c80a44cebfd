//go:build !linux

package torture

import (
	"errors"
	"os"
)

// mount makes a file system of limited size.
func mount(int) (*os.File, error) { return nil, errors.ErrUnsupported }
