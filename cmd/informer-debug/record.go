package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest/config"
)

// recordFlags holds the flags that specify the objects to record and the output file.
type recordFlags struct {
	sight    sight.Flags
	file     string
	maxSize  string
	secrets  bool
	duration time.Duration

	size int64 // parsed maxSize, set by check
}

func (f *recordFlags) check() error {
	if err := f.sight.Check(); err != nil {
		return err
	}
	switch {
	case f.file == "":
		return exit.Usage("specify the file to write with -o, for example -o bug.recording")
	case f.sight.To != "" && (f.sight.AllNamespaces || f.sight.Selector != ""):
		return exit.Usage("-A and -l cannot be used with --attach: the process decides what to record")
	case f.sight.To != "" && f.secrets:
		return exit.Usage("--include-secrets cannot be used with --attach: a process does not show the contents of Secrets; copy its recording file instead")
	case f.duration < 0:
		return exit.Usage("--duration must not be negative, got %s", f.duration)
	case f.maxSize == "":
		return nil
	}
	size, err := resource.ParseQuantity(f.maxSize)
	if err != nil || size.Value() < 1<<20 {
		return exit.Usage("--max-size %q: want at least 1Mi", f.maxSize)
	}
	f.size = size.Value()
	return nil
}

func newRecord(s terminal.Streams) *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record [TYPE[,TYPE...]] -o FILE",
		Short: "Record what informers receive, for replay",
		Long: `record runs an informer for each TYPE and writes the traffic to FILE: the requests, and
the responses with timestamps. Replay it with "informer-debug replay FILE" or, in a test,
with controllertest.Replay.

Credentials are not written. For Secrets, only times and sizes are written unless you set
--include-secrets. Everything else is written unchanged, so protect FILE as carefully as
the objects. An existing recording in FILE is kept as FILE.previous.

` + sight.Help + `

With --attach, it saves the recording of a process that keeps one (config.Config.Recorder) and
shows contents: everything received so far and from then on, until Ctrl-C, --duration, or until
the process drops its oldest requests. A process never hands out a recording that includes the
contents of Secrets.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug record pods -A -o bug.recording
  informer-debug record pods,nodes -n shop -o bug.recording --duration 10m --max-size 64Mi
  informer-debug record --attach http://localhost:6060 -o bug.recording --duration 5s`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.sight.To == "" && len(args) == 0:
				return exit.Usage("specify the types to record, for example \"pods\", or a recording process with --attach")
			case f.sight.To != "" && len(args) > 0:
				return exit.Usage("%s: with --attach the process decides what to record; omit the type", args[0])
			}
			return nil
		},
	}
	f.add(cmd)
	playback.Refuse(cmd, "%s already is a recording: copy it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		c := terminal.NewConsole(s, false)
		if f.sight.To != "" {
			return f.attached(cmd.Context(), s, c)
		}
		load := f.sight.Connect.Load
		load.Namespace, load.Logger = f.sight.Namespace, c.Logger()
		cfg, err := config.LoadWith(load)
		if err != nil {
			return &exit.Error{Code: exit.CodeUnavailable, Err: err}
		}
		return f.run(cmd.Context(), cfg, strings.Join(args, ","), c)
	}
	return cmd
}

func (f *recordFlags) add(cmd *cobra.Command) {
	s, flags := &f.sight, cmd.Flags()
	s.Connect.Add(cmd)
	flags.StringVar(&s.To, "attach", "", "process whose recording to save: "+attach.Forms)
	flags.StringVarP(&s.Namespace, "namespace", "n", "", "namespace to record, or namespace of the pod if not part of --attach")
	flags.BoolVarP(&s.AllNamespaces, "all-namespaces", "A", false, "record all namespaces")
	flags.StringVarP(&s.Selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	flags.StringVar(&s.FieldSelector, "field-selector", "", "field selector, such as spec.nodeName=node-1")
	flags.StringVarP(&f.file, "file", "o", "", "file to write")
	(&sight.Completer{Attach: &s.Flags, Namespace: &s.Namespace, More: true}).Register(cmd)
	flags.StringVar(&f.maxSize, "max-size", "", "maximum file size, beyond which the oldest requests are dropped (default 256Mi)")
	flags.BoolVar(&f.secrets, "include-secrets", false, "also record the contents of Secrets")
	flags.DurationVar(&f.duration, "duration", 0, "stop after this duration, with exit code 0; 0 means never")
}

// run records until ctx is done, --duration expires, or the recorder stops.
func (f *recordFlags) run(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) error {
	ctx, cancel := f.limited(ctx)
	defer cancel()
	began := time.Now()
	if err := f.resolve(ctx, cfg, types, c); err != nil {
		if err = f.ended(ctx, err, false); err == nil {
			c.State(time.Now(), "%-12s  nothing: stopped before the server responded", "recorded")
		}
		return err
	}
	recorder, err := recording.Create(f.file, recording.Options{MaxSize: f.size, IncludeSecrets: f.secrets, Relist: true})
	if err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	cfg.Recorder = recorder
	failed := f.watch(ctx, cfg, types, c, recorder)
	closed := recorder.Close()
	status := recorder.Status()
	f.summary(status, time.Since(began), c)
	failed = f.ended(ctx, failed, status.Requests > 0)
	switch {
	case failed != nil:
		return failed
	case closed != nil:
		return &exit.Error{Code: exit.CodeRuntime, Err: closed, Hint: "the file contains everything up to then"}
	}
	return allLeftOut(status, "--max-size", "record with a larger one, for a shorter time, or fewer objects")
}

// resolve returns an error if the cluster does not serve one of the types, before any file is touched.
// Discovery runs again during the recording, since a replay needs the responses.
func (f *recordFlags) resolve(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) error {
	targets, err := f.sight.TargetsOf(ctx, cfg, types, c)
	for _, t := range targets {
		t.Client.CloseIdleConnections()
	}
	return err
}

// ended drops errors that merely mean the recording was stopped on request. If --duration expires before
// anything is recorded, it returns a different error.
func (f *recordFlags) ended(ctx context.Context, err error, recorded bool) error {
	if err != nil && !recorded && errors.Is(context.Cause(ctx), exit.ErrDuration) {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("nothing was recorded within --duration of %s: %w", f.duration, err)}
	}
	return endedWell(ctx, err)
}

// attached saves a process's recording.
func (f *recordFlags) attached(ctx context.Context, s terminal.Streams, c *terminal.Console) error {
	process, called, err := f.sight.Attach(s)
	if err != nil {
		return err
	}
	ctx, cancel := f.limited(ctx)
	defer cancel()
	from, err := process.Recording(ctx)
	if err != nil {
		return f.unrecorded(ctx, called, err)
	}
	defer from.Close()
	began := time.Now()
	c.State(began, "%-12s  of %s", "recording", called)
	status, err := recording.Save(f.file, stoppable{ctx, from}, recording.Options{MaxSize: f.size})
	if status.Size > 0 {
		f.summary(status, time.Since(began), c)
	}
	switch {
	case status.Size == 0 && err != nil && ctx.Err() != nil:
		return f.unrecorded(ctx, called, err)
	case status.Size == 0 && err != nil:
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	case err == nil && ctx.Err() == nil:
		c.Trouble(time.Now(), "%-12s  ended: the process stopped it, or dropped its oldest requests", "recording")
		return allLeftOut(status, ofProcess, "make it larger")
	case err == nil:
		return allLeftOut(status, ofProcess, "make it larger")
	case ctx.Err() != nil: // the file is at fault
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	return &exit.Error{Code: exit.CodeRuntime, Err: err, Hint: "the file contains everything up to then"}
}

// stoppable ends a stream when ctx is done, so that saving it fails only if the file is incomplete.
type stoppable struct {
	ctx context.Context
	io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && s.ctx.Err() != nil {
		err = io.EOF
	}
	return n, err
}

// ofProcess is the name of the limit for a process's recording.
const ofProcess = "the process's recording.Options.MaxSize"

// allLeftOut returns an error if a recording had to drop all its requests because they exceeded its
// limit.
func allLeftOut(s recording.Status, bound, advice string) error {
	if s.Requests == 0 || s.Requests > s.LeftOut.Requests {
		return nil
	}
	return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("nothing is left of the recording: more data arrived than fits in %s", bound), Hint: advice}
}

// unrecorded returns an error explaining why nothing was recorded from a process.
func (f *recordFlags) unrecorded(ctx context.Context, called string, err error) error {
	if failed := f.sight.Unanswered(ctx, called, err); failed != nil {
		return failed
	}
	return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("nothing was recorded within --duration of %s: %w", f.duration, f.sight.Silent(called))}
}

// limited returns ctx with --duration applied.
func (f *recordFlags) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.duration == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, f.duration, exit.ErrDuration)
}

// watch runs the informers to record.
func (f *recordFlags) watch(ctx context.Context, cfg *config.Config, types string, c *terminal.Console, recorder *recording.Recorder) error {
	v, err := f.sight.OpenCluster(ctx, cfg, types, c)
	if err != nil {
		return err
	}
	defer v.Close()
	if err := v.Wait(ctx); err != nil {
		return err
	}
	for _, o := range v.Informers {
		c.State(time.Now(), "%-12s  %s: %d objects", "recording", o.Target, o.Status().Objects)
		if confidential.Named(o.Target.Mapping.Resource.Resource, o.Target.Mapping.Kind.Kind) && !f.secrets {
			c.Trouble(time.Now(), "%-12s  the contents of Secrets are not recorded: use --include-secrets to record them", "recording")
		}
	}
	select {
	case <-ctx.Done():
	case <-recorder.Done():
	}
	return nil
}

// endedWell drops errors that merely mean an informer was stopped on request.
func endedWell(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(context.Cause(ctx), exit.ErrDuration) || errors.Is(ctx.Err(), context.Canceled)) {
		return nil
	}
	return err
}

// summary describes the contents of the file.
func (f *recordFlags) summary(s recording.Status, took time.Duration, c *terminal.Console) {
	say := func(what, format string, args ...any) {
		c.State(time.Now(), "%-12s  %s", what, fmt.Sprintf(format, args...))
	}
	say("recorded", "%d requests, %s of responses, after %s", s.Requests, terminal.Bytes(s.Bytes), terminal.Duration(took))
	if s.LeftOut.Requests > 0 || s.LeftOut.Bytes > 0 {
		left := ""
		if s.Requests > s.LeftOut.Requests {
			left = ": an informer can be replayed from its first remaining list"
		}
		say("dropped", "the oldest %d of them, %s, to stay within --max-size%s", s.LeftOut.Requests, terminal.Bytes(s.LeftOut.Bytes), left)
	}
	say("file", "%s, %s", f.file, terminal.Bytes(s.Size))
}
