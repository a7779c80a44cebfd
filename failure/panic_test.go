package failure_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
)

// hooks lists what user code may do, and the expected result.
var hooks = []struct {
	name string
	call func() error
	want string
}{
	{"returns", func() error { return nil }, ""},
	{"fails", func() error { return errors.New("no") }, "no"},
	{"panics", func() error { panic("oh") }, "hook panicked: oh"},
	{"panics with nil", func() error { panic(nil) }, "hook panicked: " + new(runtime.PanicNilError).Error()},
	{"exits", func() error { runtime.Goexit(); return nil }, "hook called runtime.Goexit, as testing.T.FailNow does"},
}

func requireError(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.EqualError(t, err, want)
}

func TestApartSurvivesWhateverAHookDoes(t *testing.T) {
	for _, h := range hooks {
		t.Run(h.name, func(t *testing.T) {
			requireError(t, h.want, failure.Apart("hook", h.call))
		})
	}
}

func TestGuardDistinguishesPanicFromGoexit(t *testing.T) {
	for _, h := range hooks {
		t.Run(h.name, func(t *testing.T) {
			var exited, err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				err = func() (err error) {
					guard := failure.Guard{In: "hook"}
					defer guard.End(&err, func(e error) { exited = e })
					err = h.call()
					guard.Returned()
					return err
				}()
			}()
			<-done
			if h.name == "exits" {
				requireError(t, h.want, exited)
				return
			}
			require.NoError(t, exited)
			requireError(t, h.want, err)
		})
	}
}

func TestAPanicKeepsItsStack(t *testing.T) {
	err := failure.Apart("hook", func() error { panic("oh") })
	p, ok := errors.AsType[*failure.PanicError](err)
	require.True(t, ok)
	require.Contains(t, string(p.Stack), "TestAPanicKeepsItsStack")
}

type coded struct {
	code  string
	cause error
}

func (c *coded) Error() string { return c.code }

// The text of an error that is a nil pointer panics.
func TestErrorMethodOfAUsersErrorMayPanic(t *testing.T) {
	var none *coded
	require.NotPanics(t, func() { _ = failure.Reason(none) })
	require.NotPanics(t, func() { _ = (&failure.Failure{Resource: "things", Phase: failure.PhaseHandler, Err: none}).Error() })
}

func (c *coded) Unwrap() error { return c.cause }

// A panic whose value is such an error is handled like any other.
func TestAPanicWithAnErrorWhoseMethodsPanic(t *testing.T) {
	err := failure.Apart("hook", func() error { panic((*coded)(nil)) })
	_, ok := errors.AsType[*failure.PanicError](err)
	require.True(t, ok, err)
	require.ErrorContains(t, err, "hook panicked")
}
