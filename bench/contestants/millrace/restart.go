package millrace

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/snapshot"
)

// restart maintains a cache of Pods that is restored from an earlier factory's snapshot.
func (k Stack) restart(ctx context.Context, s *protocol.Session) (result *protocol.Result, err error) {
	dir, err := os.MkdirTemp("", "informer-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	k.snapshot = snapshot.In(dir, snapshot.Options{})
	if err := k.runBefore(ctx, s); err != nil {
		return nil, err
	}
	written, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(written) == 0 {
		return nil, fmt.Errorf("no snapshot was written")
	}
	k.snapshot = snapshot.In(dir, snapshot.Options{})
	f, err := k.newFactory(s)
	if err != nil {
		return nil, err
	}
	protocol.HeapInUse() // don't count the collection of the earlier factory's garbage
	return followType(ctx, s, f, factory.Informer[*corev1.Pod](f))
}

// runBefore runs the earlier factory until it has synced, then stops it.
func (k Stack) runBefore(ctx context.Context, s *protocol.Session) error {
	f, err := k.newFactory(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.Wait()
	defer cancel()
	i := factory.Informer[*corev1.Pod](f)
	f.Start(ctx)
	return i.WaitForSync(ctx)
}
