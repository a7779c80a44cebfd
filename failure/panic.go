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

// PanicError is a panic in a function of the user's. Its text leaves out the
// stack.
type PanicError struct {
	In    string // what panicked, such as "handler" or "transform"
	Value any    // what it panicked with
	Stack []byte // as debug.Stack writes it
}

// Error names what panicked and with what.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.In, e.Value) }

// GoexitError is a function of the user's that ended its goroutine with
// runtime.Goexit, as FailNow of a test does.
type GoexitError struct {
	In string // what called it, such as "handler" or "transform"
}

// Error names what called runtime.Goexit.
func (e *GoexitError) Error() string {
	return e.In + " called runtime.Goexit, as FailNow of a test does"
}

// Stack returns the stack of the panic behind err as a pair for slog, nothing if
// there is none.
func Stack(err error) []any {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return []any{"stack", string(p.Stack)}
	}
	return nil
}

// Recover makes a *PanicError of a panic, unless it is one, and stores it in err. Defer it in the
// function that calls the user's, whose name for messages is in:
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

// Sound returns err. If the methods of err panic, as those of a nil pointer often do, it returns a
// *PanicError in its place. In names what returned err. Recover, Guard and Apart return sound errors,
// so their callers need no guard of their own.
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

// errNone is no error that anybody has.
var errNone = errors.New("none")

// panicked is the error of a panic. One that was a *PanicError or a *GoexitError already was
// given a name where it happened.
func panicked(in string, p any) error {
	if e, ok := p.(error); ok && named(e) {
		return e
	}
	return &PanicError{In: in, Value: p, Stack: debug.Stack()}
}

// named reports whether e, the value of a panic, already says what panicked. The methods of e may
// panic, too.
func named(e error) bool {
	defer func() { _ = recover() }()
	_, panicked := errors.AsType[*PanicError](e)
	_, exited := errors.AsType[*GoexitError](e)
	return panicked || exited
}

// Guard watches over one call of the user's code in the calling goroutine:
//
//	func (h *listener) call(e Event) (err error) {
//		guard := failure.Guard{In: "handler"}
//		defer guard.End(&err, h.exited)
//		err = h.handle(e)
//		guard.Returned()
//		return err
//	}
type Guard struct {
	In       string // what is called, such as "handler"
	returned bool
}

// Returned says that the call has come back.
func (g *Guard) Returned() { g.returned = true }

// End must be deferred before the call. After a panic it stores a *PanicError in
// err. After a runtime.Goexit it calls exited with a *GoexitError, since nobody
// will see err any more: only deferred calls of the goroutine still run. An exited that
// panics with an error that wraps it hands it to the Guard of the goroutine's owner, which
// stores that error as it is. The same is true of a panic with an error that wraps a
// *PanicError.
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

// Apart calls f in a goroutine of its own, waits for it, and returns its error, or
// a *PanicError or *GoexitError with in as the name of what was called.
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
