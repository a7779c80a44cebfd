package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// contest runs jobs.
type contest struct {
	self     string // path of this program, to start it as the load server
	entrants []entrant
	rounds   int
	seed     uint64
	progress io.Writer
}

// deadline returns the time limit for a contestant in one round: five minutes or a millisecond per object,
// whichever is longer.
func deadline(j scenario.Job) time.Duration {
	return max(5*time.Minute, time.Duration(j.Objects)*time.Millisecond)
}

// reading contains the clock and memory readings taken at a mark.
type reading struct {
	at             time.Time
	cpu            time.Duration
	resident, peak uint64
}

// outcome is the result of one contestant in one round.
type outcome struct {
	marks  map[string]reading
	memory []results.Point // samples over time, if the scenario needs them
	listed time.Time       // when the last list was requested, if the scenario needs it
	result protocol.Result
	limit  uint64 // the memory limit, if the scenario searches for one
}

// of returns the entrants for a job.
func (c *contest) of(j scenario.Job) []entrant {
	return slices.DeleteFunc(slices.Clone(c.entrants), func(e entrant) bool {
		return !slices.Contains(j.Contestants, e.contestant) || !fits(j, e, memoryTotal())
	})
}

// fits reports whether an entrant needs less than half of the machine's memory. It returns true if the need
// is unknown.
func fits(j scenario.Job, e entrant, memory uint64) bool {
	return memory == 0 || uint64(j.Objects)*uint64(j.Takes[e.contestant]) < memory/2
}

// run measures a job, round by round and entrant by entrant. The order is reversed every second round so that
// no entrant always goes first. run returns the measures from all rounds, and memory over time from the last
// one. It fails if two entrants did different work.
func (c *contest) run(ctx context.Context, j scenario.Job) (rounds, map[string][]results.Point, error) {
	var server *loadServer
	if j.Script != scenario.Alone {
		fmt.Fprintf(c.progress, "%s: the server is encoding\n", j.Title())
		var err error
		if server, err = c.serve(ctx, j); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", j.Name, err)
		}
		defer server.kill()
	}
	all, overTime := rounds{}, map[string][]results.Point{}
	order := c.of(j)
	for _, e := range c.entrants {
		if slices.Contains(j.Contestants, e.contestant) && !slices.Contains(order, e) {
			fmt.Fprintf(c.progress, "%s: skipping %s: it would need more than half of this machine's memory\n", j.Title(), e.name)
		}
	}
	count := c.rounds
	if j.Rounds > 0 {
		count = min(count, j.Rounds)
	}
	for round := range count {
		outcomes := map[string]protocol.Result{}
		for _, e := range order {
			o, err := c.one(ctx, j, e, server)
			if e.revision != "" && errors.Is(err, errNotKnown) {
				fmt.Fprintf(c.progress, "%s: skipping %s: it does not know the scenario\n", j.Title(), e.name)
				order = slices.DeleteFunc(slices.Clone(order), func(other entrant) bool { return other.name == e.name })
				continue
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: round %d: %s: %w", j.Name, round+1, e.name, err)
			}
			outcomes[e.name] = o.result
			m, err := measure(j, o)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: round %d: %s: %w", j.Name, round+1, e.name, err)
			}
			all[e.name] = append(all[e.name], m)
			if j.OverTime {
				overTime[e.name] = o.memory
			}
			fmt.Fprintf(c.progress, "%s: round %d of %d: %s: %s\n", j.Title(), round+1, count, e.name, headline(m))
		}
		if err := agree(outcomes); err != nil {
			return nil, nil, fmt.Errorf("%s: round %d: %w", j.Name, round+1, err)
		}
		slices.Reverse(order)
	}
	return all, overTime, nil
}

// errNotKnown is returned if a contestant does not implement the scenario.
var errNotKnown = errors.New("not known there")

// one runs one entrant for one round.
func (c *contest) one(ctx context.Context, j scenario.Job, e entrant, server *loadServer) (*outcome, error) {
	if j.Smallest {
		return c.smallest(ctx, j, e, server)
	}
	return c.attempt(ctx, j, e, server, 0)
}

// attempt runs one entrant, with a memory limit if limit is not 0.
func (c *contest) attempt(ctx context.Context, j scenario.Job, e entrant, server *loadServer, limit uint64) (*outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, deadline(j), fmt.Errorf("took longer than %v", deadline(j)))
	defer cancel()
	p, remove, err := launchWithin(ctx, e.name, e.program, limit)
	if err != nil {
		return nil, err
	}
	defer remove()
	defer p.kill()
	start := protocol.Start{Scenario: j.Name, Objects: j.Objects, Seed: c.seed, Params: map[string]int{}}
	for param, value := range j.Params {
		start.Params[param] = value
	}
	if server != nil {
		if err := server.order(ctx, order{Do: "reset"}, nil); err != nil {
			return nil, because(ctx, err)
		}
		start.URL, start.Params[scenario.From] = server.URL, int(server.ListRV)
		start.Until = server.until(j)
	}
	o, err := converse(p, start, j.OverTime, steps{
		begin: func() error { return server.begin(ctx, j) }, synced: func() error { return server.follow(ctx, j) },
	})
	if err != nil {
		return nil, because(ctx, err)
	}
	if want := j.Objects + j.Params[scenario.ConfigMaps]; e.contestant != results.Floor && slices.Contains(scenario.Following(), j.Name) && o.result.Objects != want {
		return nil, fmt.Errorf("has %d objects at the end, want %d", o.result.Objects, want)
	}
	if server != nil {
		var a answered
		if err := server.order(ctx, order{Do: "tell"}, &a); err != nil {
			return nil, because(ctx, err)
		}
		if want := j.Lists(); want >= 0 && a.Lists != want {
			return nil, fmt.Errorf("requested %d lists, want %d: it does not do the work that is being measured", a.Lists, want)
		}
		o.listed = time.Unix(0, a.Listed)
	}
	if err := p.end(); err != nil {
		return nil, because(ctx, err)
	}
	return o, nil
}

// because wraps err in ctx's cause if ctx is done, since err is then only a symptom of that.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// steps are the harness's actions at marks: begin runs before the work starts, and synced after the sync if
// there is more work to come.
type steps struct{ begin, synced func() error }

// converse exchanges messages with a contestant until the result arrives. If overTime is set, it samples the
// contestant's memory during the work.
func converse(p *process, start protocol.Start, overTime bool, at steps) (*outcome, error) {
	o := &outcome{marks: map[string]reading{}}
	var sampling *sampler
	defer func() { sampling.end() }()
	for {
		var e protocol.Event
		if err := p.hear(&e); err != nil {
			return nil, err
		}
		switch e.Event {
		case protocol.EventReady:
			if err := p.say(start); err != nil {
				return nil, err
			}
		case protocol.EventMark:
			if err := o.mark(p, e.Name, start.Until > 0, at); err != nil {
				return nil, err
			}
			switch {
			case overTime && e.Name == protocol.MarkBegin:
				sampling = startSampler(p.pid())
			case e.Name == protocol.MarkDone:
				o.memory = sampling.end()
				sampling = nil
			}
		case protocol.EventResult:
			if e.Result == nil {
				return nil, fmt.Errorf("sent an empty result")
			}
			o.result = *e.Result
			return o, nil
		default:
			if strings.HasSuffix(e.Error, protocol.NotKnown) {
				return nil, fmt.Errorf("%w: %s", errNotKnown, e.Error)
			}
			return nil, fmt.Errorf("%s: %s", e.Event, e.Error)
		}
	}
}

// mark reads the clocks and lets the contestant continue. If work continues after the sync, it resets the
// peak memory at the sync.
func (o *outcome) mark(p *process, name string, more bool, at steps) error {
	if _, twice := o.marks[name]; twice {
		return fmt.Errorf("set the mark %q twice", name)
	}
	if name == protocol.MarkBegin {
		if err := at.begin(); err != nil {
			return err
		}
	}
	r, err := readClocks(p.pid())
	if err != nil {
		return err
	}
	o.marks[name] = r
	more = more && name == protocol.MarkSynced
	if more {
		if err := resetPeak(p.pid()); err != nil {
			return err
		}
	}
	if err := p.say(json.RawMessage(`{"go":true}`)); err != nil {
		return err
	}
	if more {
		return at.synced()
	}
	return nil
}

func readClocks(pid int) (r reading, err error) {
	r.at = time.Now()
	if r.cpu, err = cpuTime(pid); err != nil {
		return r, err
	}
	r.resident, r.peak, err = memory(pid)
	return r, err
}

// agree checks that all caches ended up with the same contents.
func agree(outcomes map[string]protocol.Result) error {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		r := outcomes[name]
		if contestant, _, _ := strings.Cut(name, "@"); contestant == results.Floor {
			continue
		}
		if first == "" {
			first = name
			continue
		}
		want := outcomes[first]
		if r.Objects != want.Objects || r.Digest != want.Digest || r.Heard != want.Heard {
			return fmt.Errorf("the contestants did not do the same work: %s has %d objects with digest %016x and heard %d events, %s %d, %016x and %d",
				first, want.Objects, uint64(want.Digest), want.Heard, name, r.Objects, uint64(r.Digest), r.Heard)
		}
	}
	return nil
}
