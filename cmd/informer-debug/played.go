package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

const recordingHelp = `--replay FILE looks at a recording instead of a cluster, which plays again in informers of its
own: without TYPE in all that it has.`

// replaySource are the flags of a verb that can look at a recording.
type replaySource struct {
	replayFlags
	file string
}

// add adds them; with live, the verb shows what happens while it happens.
func (f *replaySource) add(cmd *cobra.Command, live bool) {
	cmd.Flags().StringVar(&f.file, "replay", "", "recording to look at, as record writes it")
	if f.speed = "max"; live {
		cmd.Flags().StringVar(&f.speed, "speed", "1", "with --replay: how many times as fast as recorded, or max")
	}
}

func (f *replaySource) check(look *sightFlags) error {
	switch {
	case look.to != "":
		return usage("--attach and --replay contradict each other: leave one out")
	case look.fieldSelector != "":
		return usage("--field-selector makes no sense with --replay: the recorded informers said what they watched")
	}
	return f.replayFlags.check()
}

// played is a recording that plays.
type played struct {
	file    *recording.File
	replay  *recording.Replay
	restore func() // of the jitter
}

// openRecording starts the informers that a recording has, or those of the TYPEs that types
// names.
func (f *sightFlags) openRecording(ctx context.Context, s surroundings, types string) (*sight, error) {
	var args []object.GVR
	if types != "" {
		for word := range strings.SplitSeq(types, ",") {
			arg, err := object.ParseResourceArg(word)
			if err != nil {
				return nil, usage("%w", err)
			}
			args = append(args, arg)
		}
	}
	file, err := recording.Open(f.replay.file)
	if err != nil {
		return nil, &exitError{code: exitRuntime, err: err}
	}
	v, err := f.play(ctx, s, file, args)
	if err != nil {
		file.Close()
		return nil, err
	}
	return v, nil
}

func (f *sightFlags) play(ctx context.Context, s surroundings, file *recording.File, args []object.GVR) (*sight, error) {
	found, _, err := recorded(file, func(q *recording.Request) bool {
		ok := len(args) == 0
		for _, arg := range args {
			ok = ok || isOf(q, arg)
		}
		return ok && (f.namespace == "" || q.Namespace() == "" || f.namespace == q.Namespace())
	})
	if err != nil {
		return nil, err
	}
	c := newConsole(s, false)
	if file.Damage != nil {
		c.trouble(time.Now(), "%-12s  %v", "recording", file.Damage)
	}
	began := found[0].At
	for _, q := range found {
		began = min(began, q.At)
	}
	replay := file.Replay(recording.ReplayOptions{Speed: f.replay.times, From: began})
	client, err := rest.NewClient(&config.Config{Replay: replay, Logger: c.logger()}, scheme.New())
	if err != nil {
		return nil, &exitError{code: exitRuntime, err: err}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	v := &sight{
		called: fmt.Sprintf("%s, recorded at %s", file.Path, file.Began.Local().Format(time.DateTime)), flags: f, client: client, stop: stop,
		played: &played{file: file, replay: replay, restore: jitter.Longest()},
	}
	recorder := flight.New(flight.DefaultSize)
	for _, q := range found {
		if err := v.again(running, q, recorder, c); err != nil {
			v.close()
			return nil, &exitError{code: exitRuntime, err: err}
		}
	}
	v.process = debug.New(debug.Options{Program: "recording", Informers: debug.Of(v), Recorder: recorder, Contents: true}).Client()
	return v, nil
}

// again starts the informer that sent a request, as it was.
func (v *sight) again(ctx context.Context, q *recording.Request, recorder *flight.Recorder, c *console) error {
	mapping, err := mappingOf(v.played.file, q)
	if err != nil {
		return err
	}
	byLabels, byFields := q.Selectors()
	opts := sharedinformer.Options{
		Timing: v.flags.replay.timing(), Flight: recorder, SyncPatience: -1,
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict { return judgeReplayed(f) },
	}
	if opts.LabelSelector, err = labels.Parse(byLabels); err != nil {
		return fmt.Errorf("%s: %w", q, err)
	}
	if opts.FieldSelector, err = fields.ParseSelector(byFields); err != nil {
		return fmt.Errorf("%s: %w", q, err)
	}
	at := target{client: v.client, server: v.called, mapping: mapping, namespace: q.Namespace()}
	o := own{target: at, failed: make(chan error, 1)}
	switch {
	case q.MetadataOnly():
		o.informer = sharedinformer.New(sourceOf[*metav1.PartialObjectMetadata](at), opts)
	case strings.Contains(q.Answer.ContentType, wire.MediaProtobuf):
		o.informer = sharedinformer.New(sourceOf[object.Object](at), opts)
	default:
		o.informer = sharedinformer.New(sourceOf[*unstructured.Unstructured](at), opts)
	}
	v.start(ctx, o, func(f *failure.Failure) error { return f })
	return nil
}

// wait waits until the recording is over, and the caches have all of it.
func (p *played) wait(ctx context.Context, v *sight) error {
	if err := p.replay.Wait(ctx); err != nil {
		return &exitError{code: exitRuntime, err: err, hint: "the recorded informer went another way: other options, or another version"}
	}
	for _, o := range v.informers {
		if err := settled(ctx, o.Status); err != nil {
			return err
		}
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
