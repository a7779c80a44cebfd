//go:build !unix

package flight

import "io"

func quit(io.Writer) {}
