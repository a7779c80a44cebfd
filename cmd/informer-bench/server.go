package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// loadServer is the harness's side of a load server.
type loadServer struct {
	*process
	serving
}

// serve starts a server for a job and waits until it has encoded everything.
func (c *contest) serve(ctx context.Context, j scenario.Job) (*loadServer, error) {
	spec := serveSpec{
		Custom: j.Params.On(scenario.Custom), Kinds: j.Params.On(scenario.Kinds), Hostile: j.Params.On(scenario.Hostile), Alike: j.Params.On(scenario.Alike),
		Seed: c.seed, Objects: j.Objects, ConfigMaps: j.Params[scenario.ConfigMaps],
		Ring: max(1, min(j.Objects, j.Params[scenario.Events])), Changed: j.Params[scenario.Changed],
		Stamp: j.Name == "latency", Stream: j.Params.On(scenario.WatchList), Relist: j.Script == scenario.Relist || j.Params.On(scenario.Expired), Afresh: j.Afresh,
		Chosen: j.Params.On(scenario.Chosen),
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, "the load server", c.self, "serve", string(text))
	if err != nil {
		return nil, err
	}
	s := &loadServer{process: p}
	if err := p.hear(&s.serving); err != nil {
		p.kill()
		return nil, err
	}
	return s, nil
}

// until returns the resource version of a job's last event.
func (s *loadServer) until(j scenario.Job) uint64 {
	switch j.Script {
	case scenario.Watch, scenario.Reconcile:
		return s.ListRV + uint64(j.Params[scenario.Events])
	case scenario.Relist:
		return s.ExpiredRV + 1
	}
	return 0
}

// begin performs the server's actions before a contestant begins.
func (s *loadServer) begin(ctx context.Context, j scenario.Job) error {
	if j.Script != scenario.Restart || !j.Params.On(scenario.Expired) {
		return nil
	}
	return s.order(ctx, order{Do: "expire"}, nil)
}

// follow performs the server's actions once a contestant has synced.
func (s *loadServer) follow(ctx context.Context, j scenario.Job) error {
	if j.Script != scenario.Relist {
		play := order{Do: "play", Events: int64(j.Params[scenario.Events]), PerSecond: float64(j.Params[scenario.PerSecond])}
		return s.order(ctx, play, nil)
	}
	// The event after the list tells the contestant that its handlers have received the whole list.
	if err := s.order(ctx, order{Do: "expire"}, nil); err != nil {
		return err
	}
	return s.order(ctx, order{Do: "play", Events: 1}, nil)
}

// order waits until the server has executed the order. If ctx is canceled first, it kills the server.
func (s *loadServer) order(ctx context.Context, o order, a *answered) error {
	defer context.AfterFunc(ctx, func() { _ = s.cmd.Cancel() })()
	if a == nil {
		a = &answered{}
	}
	if err := s.say(o); err != nil {
		return err
	}
	if err := s.hear(a); err != nil {
		return err
	}
	if a.Error != "" {
		return fmt.Errorf("the load server: %w", errors.New(a.Error))
	}
	return nil
}
