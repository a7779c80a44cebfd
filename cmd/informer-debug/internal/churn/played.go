package churn

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// replayed reads all recorded data for the given types.
func (f *churnFlags) replayed(ctx context.Context, s terminal.Streams, types string) error {
	console := terminal.NewConsole(s, false)
	p, err := f.Replay.Open(types, f.Namespace, console)
	if err != nil {
		return err
	}
	defer p.Close()
	defer p.Client.CloseIdleConnections()
	var all []churner
	for _, q := range p.Found {
		c, err := f.churner(p, q)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	return f.churn(ctx, s, all, func(ctx context.Context, failed <-chan error) (time.Duration, error) {
		over := make(chan error, 1)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() { over <- p.Over(ctx) }()
		select {
		case err := <-over:
			return p.Length(), err
		case err := <-failed:
			stop()
			<-over
			return 0, err
		}
	})
}

// churner returns a [churner] for the informer that sent a request.
func (f *churnFlags) churner(p *playback.Player, q *recording.Request) (churner, error) {
	at, err := p.Target(q)
	if err != nil {
		return churner{}, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	c, err := newChurning(at, f.keep)
	if err != nil {
		return churner{}, err
	}
	if _, builtin := discovery.Builtin(at.Mapping.Kind); at.Mapping.Namespaced || !builtin { // custom resources usually are
		c.at.Namespace = cmp.Or(at.Namespace, f.Namespace) // the counted namespace
	}
	opts := reflector.Options{
		Timing:  f.Replay.Timing(),
		OnError: func(_ context.Context, f *failure.Failure) failure.Verdict { return playback.Judge(f) },
	}
	if opts.LabelSelector, opts.FieldSelector, err = playback.Selectors(q); err != nil {
		return churner{}, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	fatal := func(f *failure.Failure) error { return &exit.Error{Code: exit.CodeRuntime, Err: f} }
	return churner{c, func(ctx context.Context) error {
		switch {
		case q.MetadataOnly():
			return passAny[*metav1.PartialObjectMetadata](c, at).run(ctx, opts, fatal)
		case p.Protobuf(q):
			return passAny[object.Object](c, at).run(ctx, opts, fatal)
		}
		return passAny[untyped](c, at).run(ctx, opts, fatal)
	}}, nil
}
