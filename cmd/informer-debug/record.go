package main

import (
	"context"
	"errors"
	"fmt"
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

// recordFlags say what to record, and into what.
type recordFlags struct {
	sight    sight.Flags
	file     string
	maxSize  string
	secrets  bool
	duration time.Duration

	size int64 // of maxSize, after check
}

func (f *recordFlags) check() error {
	if err := f.sight.Check(); err != nil {
		return err
	}
	switch {
	case f.file == "":
		return exit.Usage("name the file to write with -o, for example -o bug.recording")
	case f.sight.To != "" && (f.sight.AllNamespaces || f.sight.Selector != ""):
		return exit.Usage("-A and -l make no sense with --attach: the process says what it records")
	case f.sight.To != "" && f.secrets:
		return exit.Usage("--include-secrets makes no sense with --attach: a process does not show what Secrets hold; copy the file that it writes")
	case f.duration < 0:
		return exit.Usage("--duration is %s: want 0 or more", f.duration)
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
		Short: "Record what informers receive, to be replayed",
		Long: `record runs an informer of each TYPE and writes what they receive into FILE: the
requests, and the bytes of the answers with their times. "informer-debug replay FILE"
plays it again, and controllertest.Replay does in a test.

Credentials are not written. Of Secrets only times and sizes are, unless you say
--include-secrets. Everything else is written as it is: treat FILE as you treat the
objects. A recording that FILE has already is kept as FILE.previous.

` + sight.Help + `

With --attach it takes the recording of a process that keeps one (config.Config.Recorder) and shows
contents: what the process received so far, and then what comes, until Ctrl-C, --duration, or
until the process leaves its oldest requests out. One that has what Secrets hold is not handed
out.

` + attach.Help + `

` + exit.See,
		Example: `  informer-debug record pods -A -o bug.recording
  informer-debug record pods,nodes -n shop -o bug.recording --duration 10m --max-size 64Mi
  informer-debug record --attach http://localhost:6060 -o bug.recording --duration 5s`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.sight.To == "" && len(args) == 0:
				return exit.Usage("name what to record, for example \"pods\", or a process that records with --attach")
			case f.sight.To != "" && len(args) > 0:
				return exit.Usage("%s: with --attach the process says what it records; leave it out", args[0])
			}
			return nil
		},
	}
	f.add(cmd)
	playback.Refuse(cmd, "%s is a recording already: copy it")
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
	flags.StringVar(&s.To, "attach", "", "process whose recording to take: "+attach.Forms)
	flags.StringVarP(&s.Namespace, "namespace", "n", "", "namespace to record, or of a pod that names none")
	flags.BoolVarP(&s.AllNamespaces, "all-namespaces", "A", false, "record all namespaces")
	flags.StringVarP(&s.Selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	flags.StringVar(&s.FieldSelector, "field-selector", "", "field selector, such as spec.nodeName=node-1")
	flags.StringVarP(&f.file, "file", "o", "", "file to write")
	(&sight.Completer{Attach: &s.Flags, Namespace: &s.Namespace, More: true}).Register(cmd)
	flags.StringVar(&f.maxSize, "max-size", "", "how large the file may become, before the oldest requests are left out (default 256Mi)")
	flags.BoolVar(&f.secrets, "include-secrets", false, "write what Secrets hold, too")
	flags.DurationVar(&f.duration, "duration", 0, "end after that time, with exit code 0; 0 is no end")
}

// run records until ctx is done, --duration is over, or nothing more can be recorded.
func (f *recordFlags) run(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) error {
	ctx, cancel := f.limited(ctx)
	defer cancel()
	began := time.Now()
	if err := f.resolve(ctx, cfg, types, c); err != nil {
		if err = f.ended(ctx, err, false); err == nil {
			c.State(time.Now(), "%-12s  nothing: the end came before the server's answer", "recorded")
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
		return &exit.Error{Code: exit.CodeRuntime, Err: closed, Hint: "what came before is in the file"}
	}
	return allLeftOut(status, "--max-size", "record with a greater one, for a shorter time, or fewer objects")
}

// resolve fails where a TYPE is none of the cluster's, before a file is touched. What is asked for
// here is asked for again when it is recorded, since a replay asks for it.
func (f *recordFlags) resolve(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) error {
	targets, err := f.sight.TargetsOf(ctx, cfg, types, c)
	for _, t := range targets {
		t.Client.CloseIdleConnections()
	}
	return err
}

// ended drops an error that is only that somebody wanted an end. An end before anything is recorded
// is one of its own.
func (f *recordFlags) ended(ctx context.Context, err error, recorded bool) error {
	if err != nil && !recorded && errors.Is(context.Cause(ctx), exit.ErrDuration) {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("--duration of %s is over, and nothing is recorded: %w", f.duration, err)}
	}
	return endedWell(ctx, err)
}

// attached takes the recording of a process.
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
	status, err := recording.Save(f.file, from, recording.Options{MaxSize: f.size})
	if status.Size > 0 {
		f.summary(status, time.Since(began), c)
	}
	switch {
	case status.Size == 0 && err != nil && ctx.Err() != nil:
		return f.unrecorded(ctx, called, err)
	case status.Size == 0 && err != nil:
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	case err == nil && ctx.Err() == nil:
		c.Trouble(time.Now(), "%-12s  the process has ended it, or has left its oldest requests out", "recording")
		return allLeftOut(status, ofProcess, "give it a greater one")
	case err == nil || endedWell(ctx, err) == nil:
		return allLeftOut(status, ofProcess, "give it a greater one")
	}
	return &exit.Error{Code: exit.CodeRuntime, Err: err, Hint: "what came before is in the file"}
}

// ofProcess is what bounds the recording of a process.
const ofProcess = "recording.Options.MaxSize of the process"

// allLeftOut is the error of a recording of which nothing is left, since more came at a time than
// a bound has room for; nil for others.
func allLeftOut(s recording.Status, bound, advice string) error {
	if s.Requests == 0 || s.Requests > s.LeftOut.Requests {
		return nil
	}
	return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("nothing is left of what was recorded: more came than %s has room for", bound), Hint: advice}
}

// unrecorded is why nothing of a process was recorded.
func (f *recordFlags) unrecorded(ctx context.Context, called string, err error) error {
	if failed := f.sight.Unanswered(ctx, called, err); failed != nil {
		return failed
	}
	return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("--duration of %s is over, and nothing is recorded: %w", f.duration, f.sight.Silent(called))}
}

// limited ends ctx after --duration.
func (f *recordFlags) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.duration == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, f.duration, exit.ErrDuration)
}

// watch runs the informers.
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
			c.Trouble(time.Now(), "%-12s  what Secrets hold is left out: --include-secrets records it", "recording")
		}
	}
	select {
	case <-ctx.Done():
	case <-recorder.Done():
	}
	return nil
}

// endedWell drops an error that is only that somebody wanted an end.
func endedWell(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(context.Cause(ctx), exit.ErrDuration) || errors.Is(ctx.Err(), context.Canceled)) {
		return nil
	}
	return err
}

// summary says what is in the file.
func (f *recordFlags) summary(s recording.Status, took time.Duration, c *terminal.Console) {
	say := func(what, format string, args ...any) {
		c.State(time.Now(), "%-12s  %s", what, fmt.Sprintf(format, args...))
	}
	say("recorded", "%d requests, %s of answers, after %s", s.Requests, terminal.Bytes(s.Bytes), terminal.Duration(took))
	if s.LeftOut.Requests > 0 || s.LeftOut.Bytes > 0 {
		left := ""
		if s.Requests > s.LeftOut.Requests {
			left = ": an informer can be played from the first of its lists that is left"
		}
		say("left out", "the oldest %d of them, %s, to stay within --max-size%s", s.LeftOut.Requests, terminal.Bytes(s.LeftOut.Bytes), left)
	}
	say("file", "%s, %s", f.file, terminal.Bytes(s.Size))
}
