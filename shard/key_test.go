package shard

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// A function that fails is named, whoever asked for the hash.
func TestAKeyThatFails(t *testing.T) {
	o := &metav1.PartialObjectMetadata{}
	broken := ByFunc("team", func(object.Head) string { panic("no team") })
	err := failure.Apart("a method of an object", func() error { broken.Hash(o); return nil })
	require.ErrorContains(t, err, `the function of shard.ByFunc("team") at shard/key_test.go:19 panicked: no team`)
	require.NotContains(t, err.Error(), "a method of an object")
	panicked, ok := errors.AsType[*failure.PanicError](err)
	require.True(t, ok)
	require.Contains(t, string(panicked.Stack), "key_test.go:19")

	err = nil
	func() {
		defer failure.Recover("a handler", &err)
		broken.Hash(o)
	}()
	require.NotContains(t, err.Error(), "a handler")

	ends := ByFunc("team", func(object.Head) string { runtime.Goexit(); return "" })
	err = failure.Apart("an index function", func() error { ends.Hash(o); return nil })
	require.ErrorContains(t, err, `the function of shard.ByFunc("team") at shard/key_test.go:34 called runtime.Goexit`)
	require.NotContains(t, err.Error(), "index")
}

// Keys without a distinct name, or that put everything into one slot, are refused at once.
func TestInvalidKeys(t *testing.T) {
	require.Panics(t, func() { ByFunc("", func(object.Head) string { return "" }) })
	require.Panics(t, func() { ByFunc("team", nil) })
	require.Panics(t, func() { ByLabel("") })
}

// incomparable is a Share that cannot be a map key.
type incomparable struct {
	Share
	_ []string
}

func TestAShareThatCannotBeCompared(t *testing.T) {
	require.ErrorContains(t, Scope{Share: incomparable{Share: Ordinal(0, 1)}}.Err(), "a shard.incomparable is not comparable")
	require.NoError(t, Scope{Share: &incomparable{}}.Err())
	require.NoError(t, Scope{}.Err())
}

// Untrusted text is parsed in time bounded by its length.
func TestSlotsThatAreOutOfOrder(t *testing.T) {
	for _, text := range []string{"3,2", "0-9,5", "5,5", strings.Repeat("0-1023,", 1000) + "0"} {
		_, err := ParseSlots(text, 1024)
		require.ErrorContains(t, err, "is not an ordered set of slots of 1024", "%.20s", text)
	}
}

// A key is found by its name, except for functions.
func TestKeysByName(t *testing.T) {
	for _, key := range []Key{{}, ByUID(), ByNamespace(), ByOwner(), ByLabel("team")} {
		found, ok := KeyNamed(key.String())
		require.True(t, ok)
		require.Equal(t, key.String(), found.String())
	}
	for _, name := range []string{"", "label ", ByFunc("team", func(object.Head) string { return "" }).String()} {
		_, ok := KeyNamed(name)
		require.False(t, ok, name)
	}
}
