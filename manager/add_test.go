package manager_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/sharedinformer"
)

type noInformers struct{}

func (noInformers) Status() []sharedinformer.Status { return nil }

// If AddInformers fails, it leaves nothing behind.
func TestAddInformersAfterAFailure(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		require.NoError(t, m.AddReadyzCheck("informers-far", manager.Ping))
		for range 2 {
			require.ErrorContains(t, m.AddInformers("far", noInformers{}), `a check named "informers-far"`)
		}
	})
}

// occupied is a part whose port is in use.
type occupied struct{ part }

func (*occupied) Listen() error { return syscall.EADDRINUSE }
func (*occupied) Close() error  { return nil }

func TestAListenErrorNamesTheRunnable(t *testing.T) {
	inBubble(t, server{}, func(r *rig) {
		m := r.manager(options{})
		require.NoError(t, m.Add(&occupied{part{rig: r, name: "my-grpc"}}))
		require.ErrorContains(t, m.Run(r.ctx), "my-grpc: ")
	})
}
