package failure_test

import (
	"errors"
	"fmt"

	"github.com/millrace-dev/millrace/failure"
)

// A hook of somebody else's may panic. Apart makes an error of it.
func ExampleApart() {
	err := failure.Apart("the greeting", func() error { panic("no name") })
	fmt.Println(err)

	panicked, ok := errors.AsType[*failure.PanicError](err)
	fmt.Println(ok, panicked.In, panicked.Value, len(panicked.Stack) > 0)
	// Output:
	// the greeting panicked: no name
	// true the greeting no name true
}
