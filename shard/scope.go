package shard

import (
	"fmt"
	"reflect"
)

// Scope is what of a kind a process holds: what a key puts into its share. The zero value is
// everything. Two scopes are one where their keys have one name and their shares are equal, so
// a Share must be of a comparable type, such as a pointer.
type Scope struct {
	Key   Key
	Share Share
}

// Everything reports whether the scope leaves nothing out.
func (s Scope) Everything() bool { return s.Share == nil }

// Err says why the scope can be nobody's; nil if it can.
func (s Scope) Err() error {
	if s.Share == nil || reflect.ValueOf(s.Share).Comparable() {
		return nil
	}
	return fmt.Errorf("a %T is no shard.Share that can be told from others: its type must be comparable, such as a pointer", s.Share)
}
