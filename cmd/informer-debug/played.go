package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

const recordingHelp = `--replay FILE looks at a recording instead of a cluster, which plays again in informers of its
own: without TYPE in all that it has.`

// replaySource are the flags of a verb that can look at a recording.
type replaySource struct {
	replayFlags
	file string
}

// add adds them. Speed is the default of a verb that may look while it plays; the others, for
// which it is empty, look at the end.
func (f *replaySource) add(cmd *cobra.Command, speed string) {
	cmd.Flags().StringVar(&f.file, "replay", "", "recording to look at, as record writes it")
	if f.speed = "max"; speed != "" {
		cmd.Flags().StringVar(&f.speed, "speed", speed, "with --replay: how many times as fast as recorded, or max")
	}
}

// noReplay lets a verb to which a recording is of no use say what to do instead.
func noReplay(cmd *cobra.Command, instead string) {
	file := cmd.Flags().String("replay", "", "")
	_ = cmd.Flags().MarkHidden("replay") // it fails only for a flag that does not exist
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *file == "" {
			return nil
		}
		return exit.Usage("--replay: %s", fmt.Sprintf(instead, *file))
	}
}

// played is a recording that plays.
type played struct {
	file    *recording.File
	replay  *recording.Replay
	client  *rest.Client
	found   []*recording.Request // the first one of each informer that is played
	began   time.Duration        // when the first of them was sent
	restore func()               // of the jitter
}

// open opens a recording, to play the informers that it has, or those of the TYPEs that types
// names, and of a namespace unless that is empty.
func (f *replaySource) open(types, namespace string, c *terminal.Console) (*played, error) {
	var args []object.GVR
	if types != "" {
		for word := range strings.SplitSeq(types, ",") {
			arg, err := object.ParseResourceArg(word)
			if err != nil {
				return nil, exit.Usage("%w", err)
			}
			args = append(args, arg)
		}
	}
	file, err := recording.Open(f.file)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	p, err := f.play(file, args, namespace, c)
	if err != nil {
		file.Close()
		return nil, err
	}
	return p, nil
}

func (f *replaySource) play(file *recording.File, args []object.GVR, namespace string, c *terminal.Console) (*played, error) {
	found, _, err := recorded(file, func(q *recording.Request) bool {
		ok := len(args) == 0
		for _, arg := range args {
			ok = ok || isOf(q.Resource(), arg)
		}
		return ok && (namespace == "" || q.Namespace() == "" || namespace == q.Namespace())
	})
	if err != nil {
		return nil, err
	}
	if file.Damage != nil {
		c.Trouble(time.Now(), "%-12s  %v", "recording", file.Damage)
	}
	p := &played{file: file, found: found, began: found[0].At}
	for _, q := range found {
		p.began = min(p.began, q.At)
	}
	p.replay = file.Replay(recording.ReplayOptions{Speed: f.times, From: p.began})
	p.client, err = rest.NewClient(&config.Config{Replay: p.replay, Logger: c.Logger()}, scheme.New())
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	p.restore = jitter.Longest()
	return p, nil
}

// called is what messages call it.
func (p *played) called() string {
	return fmt.Sprintf("%s, recorded at %s", p.file.Path, p.file.Began.Local().Format(time.DateTime))
}

// target is where the informer that sent a request looked.
func (p *played) target(q *recording.Request) (cluster.Target, error) {
	mapping, err := mappingOf(p.file, q)
	return cluster.Target{Client: p.client, Server: p.called(), Mapping: mapping, Namespace: q.Namespace()}, err
}

// over waits until the recording is over.
func (p *played) over(ctx context.Context) error {
	if err := p.replay.Wait(ctx); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err, Hint: "the recorded informer went another way: other options, or another version"}
	}
	return nil
}

func (p *played) close() {
	p.restore()
	p.file.Close()
}

// settled waits until what an informer has received is in its cache, and its handlers know.
func settled(ctx context.Context, status func() sharedinformer.Status) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		s := status()
		done := s.QueueDepth == 0
		for _, h := range s.Handlers {
			done = done && h.Pending == 0
		}
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
