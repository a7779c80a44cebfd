package main

import (
	"cmp"
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/wire"
)

// openRecording starts the informers of a recording.
func (f *sightFlags) openRecording(ctx context.Context, s terminal.Streams, types string) (*sight, error) {
	c := terminal.NewConsole(s, false)
	p, err := f.replay.Open(types, f.Namespace, c)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	v := &sight{called: p.Called(), flags: f, client: p.Client, stop: stop, played: p}
	recorder := flight.New(flight.DefaultSize)
	for _, q := range p.Found {
		if err := v.again(running, q, recorder); err != nil {
			v.close()
			return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
		}
	}
	v.process = debug.New(debug.Options{Program: "recording", Informers: debug.Of(v), Recorder: recorder, Contents: true}).Client()
	return v, nil
}

// again starts the informer that sent a request, as it was.
func (v *sight) again(ctx context.Context, q *recording.Request, recorder *flight.Recorder) error {
	at, err := v.played.Target(q)
	if err != nil {
		return err
	}
	opts := sharedinformer.Options{
		Timing: v.flags.replay.Timing(), Flight: recorder, SyncPatience: -1,
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict { return playback.Judge(f) },
	}
	if opts.LabelSelector, opts.FieldSelector, err = playback.Selectors(q); err != nil {
		return err
	}
	o := own{target: at, failed: make(chan error, 1)}
	switch {
	case q.MetadataOnly():
		o.informer = sharedinformer.New(cluster.Source[*metav1.PartialObjectMetadata](at), opts)
	case strings.Contains(q.Answer.ContentType, wire.MediaProtobuf):
		o.informer = sharedinformer.New(cluster.Source[object.Object](at), opts)
	default:
		o.informer = sharedinformer.New(cluster.Source[*unstructured.Unstructured](at), opts)
	}
	v.start(ctx, o, func(f *failure.Failure) error { return &exit.Error{Code: exit.CodeRuntime, Err: f} })
	return nil
}

// recordedAs returns the informers of a recording that a list of TYPEs means.
func (v *sight) recordedAs(types string) (all []own, err error) {
	for word := range strings.SplitSeq(types, ",") {
		arg, err := object.ParseResourceArg(word)
		if err != nil {
			return nil, exit.Usage("%w", err)
		}
		for _, o := range v.informers {
			if playback.IsOf(o.target.Mapping.Resource, arg) {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

// waitRecorded waits until the recording is over, and the caches have all of it.
func (v *sight) waitRecorded(ctx context.Context) error {
	if err := v.played.Over(ctx); err != nil {
		return err
	}
	for _, o := range v.informers {
		if err := playback.Settled(ctx, o.Status); err != nil {
			return err
		}
	}
	return nil
}

// recordedNamespace is where an object of a recorded informer is. Of a type that is not built in,
// a recording does not tell whether its objects have namespaces.
func (o *own) recordedNamespace(flag string) string {
	if m, ok := discovery.Builtin(o.target.Mapping.Kind); ok && !m.Namespaced {
		return ""
	}
	return cmp.Or(flag, o.target.Namespace)
}
