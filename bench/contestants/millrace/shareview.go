package millrace

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/shard"
)

// shareCache lists all objects and then only the share belonging to one of Params.Replicas replicas, and
// compares the memory, CPU time and traffic used. The byte counts reveal whether the server did the
// filtering.
func (k Stack) shareCache(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	if _, err := k.hold(ctx, s, shard.Scope{}); err != nil { // excludes one-time allocations
		return nil, err
	}
	all, err := k.hold(ctx, s, shard.Scope{})
	if err != nil {
		return nil, err
	}
	part, err := k.hold(ctx, s, shard.Scope{Key: shard.ByUID(), Share: shard.Ordinal(0, s.Params[scenario.Replicas])})
	if err != nil {
		return nil, err
	}
	if err := s.Mark(protocol.MarkDone); err != nil {
		return nil, err
	}
	if all.objects != s.Objects || part.objects == 0 {
		return nil, errors.New("the caches do not contain the expected objects")
	}
	m := map[string]float64{
		results.MemoryPart: part.live / all.live,
		results.CPUPart:    part.cpu / all.cpu,
		results.BytesPart:  part.bytes / all.bytes,
		results.ByServer:   0,
	}
	if m[results.BytesPart] < 0.5 {
		m[results.ByServer] = 1
	}
	return &protocol.Result{Metrics: m}, nil
}

// held is what it costs to cache a share.
type held struct {
	objects          int
	live, cpu, bytes float64
}

func (k Stack) hold(ctx context.Context, s *protocol.Session, part shard.Scope) (h held, err error) {
	var received atomic.Int64
	client, err := rest.NewClient(&config.Config{Host: s.URL, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return counted{conn, &received}, err
	}}, scheme.New())
	if err != nil {
		return h, err
	}
	defer client.CloseIdleConnections()
	f := factory.New(client, factory.Options{Initial: reflector.List, Store: k.Store})
	ctx, cancel := context.WithCancel(ctx)
	defer f.Wait()
	defer cancel()
	i := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: part}})
	live, cpu := protocol.HeapInUse(), used()
	f.Start(ctx)
	if err := i.WaitForSync(ctx); err != nil {
		return h, err
	}
	h.cpu, h.bytes = (used() - cpu).Seconds(), float64(received.Load())
	h.live = float64(protocol.HeapInUse()) - float64(live)
	for range i.Cache().All() {
		h.objects++
	}
	runtime.KeepAlive(i)
	return h, nil
}

// counted wraps a transport and counts received bytes.
type counted struct {
	net.Conn
	received *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// used returns the process's CPU time.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for invalid arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
