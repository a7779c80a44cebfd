package failure

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// PanicError reports a panic in a user's function. Its message omits the stack trace.
type PanicError struct {
	In    string // the function that panicked, such as "handler" or "transform"
	Value any    // the panic value
	Stack []byte // result of debug.Stack
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.In, e.Value) }

// GoexitError means that a user's function exited its goroutine with runtime.Goexit, as testing.T.FailNow
// does.
type GoexitError struct {
	In string // the function that called it, such as "handler" or "transform"
}

func (e *GoexitError) Error() string {
	return e.In + " called runtime.Goexit, as testing.T.FailNow does"
}

// Stack returns the stack trace of the panic behind err as a key and value for slog, or nothing if there is
// none.
func Stack(err error) []any {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return []any{"stack", string(p.Stack)}
	}
	return nil
}

// Recover recovers from a panic and stores it in err as a *PanicError, unless the panic value already is one.
// Defer it in the function that calls user code, passing the name of that code for messages:
//
//	func (t *transformer) call(o Object) (out Object, err error) {
//		defer failure.Recover("transform", &err)
//		return t.transform(o)
//	}
func Recover(in string, err *error) {
	if p := recover(); p != nil {
		*err = panicked(in, p)
		return
	}
	*err = Sound(in, *err)
}

// Sound returns err, or a *PanicError if err's methods panic, as often happens with nil pointers. The
// argument in is the name of the function that returned err. Errors from Recover, Guard and Apart have
// already been through Sound.
func Sound(in string, err error) (sound error) {
	if err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			sound = &PanicError{In: fmt.Sprintf("a %T, which %s returned as an error,", err, in), Value: p, Stack: debug.Stack()}
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, errNone)
	_ = apierrors.ReasonForError(err)
	return err
}

// errNone is a placeholder that no code ever returns.
var errNone = errors.New("none")

// panicked returns the error for a panic. A *PanicError or *GoexitError is returned unchanged, because it
// already identifies the function.
func panicked(in string, p any) error {
	if e, ok := p.(error); ok && named(e) {
		return e
	}
	return &PanicError{In: in, Value: p, Stack: debug.Stack()}
}

// named reports whether e, a panic value, already identifies the function. e's methods may panic too.
func named(e error) bool {
	defer func() { _ = recover() }()
	_, panicked := errors.AsType[*PanicError](e)
	_, exited := errors.AsType[*GoexitError](e)
	return panicked || exited
}

// Guard protects one call to user code in the calling goroutine:
//
//	func (h *listener) call(e Event) (err error) {
//		guard := failure.Guard{In: "handler"}
//		defer guard.End(&err, h.exited)
//		err = h.handle(e)
//		guard.Returned()
//		return err
//	}
type Guard struct {
	In       string // name of the function, such as "handler"
	returned bool
}

// Returned records that the call has returned.
func (g *Guard) Returned() { g.returned = true }

// End must be deferred before the call. After a panic it stores a *PanicError in err. After a runtime.Goexit
// it calls exited with a *GoexitError, because err is lost: only the goroutine's deferred calls still run. If
// exited panics with an error that wraps the *GoexitError, the Guard of the goroutine's owner stores that
// error unchanged. It treats an error that wraps a *PanicError the same way.
func (g *Guard) End(err *error, exited func(error)) {
	if g.returned {
		*err = Sound(g.In, *err)
		return
	}
	if p := recover(); p != nil {
		*err = panicked(g.In, p)
		return
	}
	exited(&GoexitError{In: g.In})
}

// Apart calls f in a new goroutine, waits for it, and returns its error. If f panics or calls runtime.Goexit,
// Apart returns a *PanicError or *GoexitError; in is the name of f in that error.
func Apart(in string, f func() error) error {
	ended := make(chan error, 1)
	go func() {
		var err error
		guard := Guard{In: in}
		defer func() { ended <- err }()
		defer guard.End(&err, func(e error) { err = e })
		err = f()
		guard.Returned()
	}()
	return <-ended
}

// Place returns the file:line of a call, including the directory name, such as "shop/main.go:12". A skip of 0
// means the call to Place itself, 1 the call to Place's caller, and so on.
func Place(skip int) string {
	_, file, line, ok := runtime.Caller(skip + 1)
	if !ok {
		return "unknown place"
	}
	return path.Base(path.Dir(file)) + "/" + path.Base(file) + ":" + strconv.Itoa(line)
}
