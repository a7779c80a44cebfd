package failure

import (
	"path"
	"runtime"
	"strconv"
)

// Place returns the file:line of a call, with the name of the folder, such as
// "shop/main.go:12". With skip 0 it is that of the call of Place, with 1 that of the
// call of the function in which Place is called, and so on.
func Place(skip int) string {
	_, file, line, ok := runtime.Caller(skip + 1)
	if !ok {
		return "unknown place"
	}
	return path.Base(path.Dir(file)) + "/" + path.Base(file) + ":" + strconv.Itoa(line)
}
