package failure_test

import (
	"errors"
	"fmt"

	"github.com/millrace-dev/millrace/failure"
)

// A hook may panic. Apart turns that into an error.
func ExampleApart() {
	err := failure.Apart("the greeting", func() error { panic("no name") })
	fmt.Println(err)

	panicked, ok := errors.AsType[*failure.PanicError](err)
	fmt.Println(ok, panicked.In, panicked.Value, len(panicked.Stack) > 0)
	// Output:
	// the greeting panicked: no name
	// true the greeting no name true
}
