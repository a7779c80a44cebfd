package sight

import (
	"cmp"
	"context"
	"strings"
	"sync"

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
)

// openRecording starts the informers of a recording.
func (f *Flags) openRecording(ctx context.Context, s terminal.Streams, types string) (*Sight, error) {
	c := terminal.NewConsole(s, false)
	p, err := f.Replay.Open(types, f.Namespace, c)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	v := &Sight{Called: p.Called(), Flags: f, Client: p.Client, stop: stop, Played: p}
	recorder := flight.New(flight.DefaultSize)
	for _, q := range p.Found {
		if err := v.again(running, q, recorder); err != nil {
			v.Close()
			return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
		}
	}
	v.Process = debug.New(debug.Options{Program: "recording", Informers: debug.Of(v), Recorder: recorder, Contents: true}).Client()
	return v, nil
}

// again recreates the informer that sent a request, with the same scope.
func (v *Sight) again(ctx context.Context, q *recording.Request, recorder *flight.Recorder) error {
	at, err := v.Played.Target(q)
	if err != nil {
		return err
	}
	opts := sharedinformer.Options{
		Timing: v.Flags.Replay.Timing(), Flight: recorder, SyncPatience: -1,
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict { return playback.Judge(f) },
	}
	if opts.LabelSelector, opts.FieldSelector, err = playback.Selectors(q); err != nil {
		return err
	}
	o := Own{Target: at, Failed: make(chan error, 1)}
	switch {
	case q.MetadataOnly():
		o.Informer = sharedinformer.New[*metav1.PartialObjectMetadata](cluster.Source[*metav1.PartialObjectMetadata](at), opts)
	case v.Played.Protobuf(q):
		o.Informer = sharedinformer.New[object.Object](cluster.Source[object.Object](at), opts)
	default:
		o.Informer = sharedinformer.New[*unstructured.Unstructured](cluster.Source[*unstructured.Unstructured](at), opts)
	}
	v.start(ctx, o, func(f *failure.Failure) error { return &exit.Error{Code: exit.CodeRuntime, Err: f} })
	return nil
}

// RecordedAs returns the recorded informers that match a list of types.
func (v *Sight) RecordedAs(types string) (all []Own, err error) {
	for word := range strings.SplitSeq(types, ",") {
		arg, err := object.ParseResourceArg(word)
		if err != nil {
			return nil, exit.Usage("%w", err)
		}
		for _, o := range v.Informers {
			if playback.IsOf(o.Target.Mapping.Resource, arg) {
				all = append(all, o)
			}
		}
	}
	return all, nil
}

// waitRecorded waits until the recording has ended and all caches are complete, or an informer has
// failed.
func (v *Sight) waitRecorded(ctx context.Context) error {
	playing, fail := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer fail(nil)
	for _, o := range v.Informers {
		watching.Go(func() {
			select {
			case err := <-o.Failed:
				o.Failed <- err
				if err != nil {
					fail(err)
				}
			case <-playing.Done():
			}
		})
	}
	if err := v.Played.Over(playing); err != nil {
		if failed := context.Cause(playing); failed != nil && ctx.Err() == nil {
			return failed
		}
		return err
	}
	for _, o := range v.Informers {
		if err := playback.Settled(playing, o.Status); err != nil {
			return err
		}
	}
	return nil
}

// RecordedNamespace returns the namespace of an object in a recorded informer. It assumes that custom
// resources are namespaced, because recordings do not show whether they are.
func (o *Own) RecordedNamespace(flag string) string {
	if m, ok := discovery.Builtin(o.Target.Mapping.Kind); ok && !m.Namespaced {
		return ""
	}
	return cmp.Or(flag, o.Target.Namespace)
}
