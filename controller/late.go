package controller

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/shard"
)

// late binds a client to its informer on first use. A nil *late is already bound.
type late struct {
	bind func(shard.Scope)

	bound atomic.Bool

	mu    sync.Mutex // guards scope and serializes calls to bind
	scope shard.Scope
}

// use binds the client.
func (l *late) use() {
	if l == nil || l.bound.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.bound.Load() {
		l.bind(l.scope)
		l.bound.Store(true)
	}
}

// shard narrows the informer to a share.
func (l *late) shard(name string, scope shard.Scope) error {
	if l == nil {
		return fmt.Errorf("the client for %s already has an informer: create the client with manager.Client or manager.ControllerFor, or both informers with Manager.Shard", name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.scope.Err(), scope.Err()); err != nil { // invalid scopes cannot be compared
		return fmt.Errorf("shard the cache of %s: %w", name, err)
	}
	switch {
	case sameShard(l.scope, scope):
		return nil
	case !l.scope.Everything():
		return fmt.Errorf("the cache of %s is sharded by %s and cannot also be sharded by %s: remove one of the two, or give one of the controllers its own client (controller.ClientWith)", name, l.scope.Key, scope.Key)
	case l.bound.Load():
		return fmt.Errorf("the cache of %s is in use and unsharded: call Sharded before the first index, source or read, and before the manager runs", name)
	}
	l.scope = scope
	return nil
}

func sameShard(a, b shard.Scope) bool {
	return a.Everything() && b.Everything() || a.Share == b.Share && a.Key.String() == b.Key.String()
}
