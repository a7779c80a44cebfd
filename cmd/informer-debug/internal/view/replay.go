package view

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
)

var errPlayed = errors.New("the recording has ended")

// ReplayCommand returns the replay command, which writes to s.
func ReplayCommand(s terminal.Streams) *cobra.Command {
	var replay playback.Speed
	var flags Flags
	cmd := &cobra.Command{
		Use:   "replay FILE [TYPE[.VERSION][.GROUP]]",
		Short: "Play back a recording in the format of watch",
		Long: `replay feeds everything a recorded informer received to another informer, and shows its
handler's events. It needs no cluster, and ends with the recording. Without TYPE, it replays the
only informer in FILE, or lists the informers if there are several. -n, -l and --field-selector
select one of several informers for a TYPE.

--speed 10 replays ten times as fast as recorded, and --speed max waits only where the server was
silent.

` + Help + `

` + exit.See,
		Example: `  informer-debug replay bug.recording
  informer-debug replay bug.recording pods --speed max -o wide`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return exit.Usage("%d arguments: want FILE, and TYPE if there are several", len(args))
			}
			return nil
		},
	}
	flags.Add(cmd)
	_ = cmd.Flags().MarkHidden("snapshot") // such objects would not be part of the recording
	cmd.Flags().StringVar(&replay.Text, "speed", "1", "speed as a multiple of real time, or max")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(replay.Check(), flags.Check()); err != nil {
			return err
		}
		file, err := recording.Open(args[0])
		if err != nil {
			return &exit.Error{Code: exit.CodeRuntime, Err: err}
		}
		defer file.Close()
		return runReplay(cmd.Context(), s, &replay, file, strings.Join(args[1:], ""), &flags)
	}
	return cmd
}

// runReplay replays one of the informers in a recording.
func runReplay(ctx context.Context, s terminal.Streams, f *playback.Speed, file *recording.File, typed string, flags *Flags) error {
	first, err := choose(file, typed, flags)
	if err != nil {
		return err
	}
	c := terminal.NewConsole(s, flags.Verbose)
	played, requests := playback.Only(first), 0
	for _, q := range file.Requests {
		if played(q) {
			requests++
		}
	}
	c.State(time.Now(), "%-12s  of %s: %d requests for %s, in %s", "recording", file.Began.Local().Format(time.DateTime), requests, playback.InformerOf(first), terminal.Duration(file.Duration))
	if file.Damage != nil {
		c.Trouble(time.Now(), "%-12s  %v", "recording", file.Damage)
	}
	if n := file.LeftOut; n.Requests > 0 {
		c.Trouble(time.Now(), "%-12s  its oldest %d requests were dropped", "recording", n.Requests)
	}
	mapping, err := playback.Mapping(file, first)
	if err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	replay := file.Replay(recording.ReplayOptions{Speed: f.Times, From: first.At, Only: played})
	client, err := rest.NewClient(&config.Config{Replay: replay, Logger: c.Logger()}, scheme.New())
	if err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	defer client.CloseIdleConnections()
	defer jitter.Longest()()
	j := &Job{Streams: s, Flags: flags, Console: c, Timing: f.Timing(), recording: replay}
	v := &view{Job: j, target: cluster.Target{Client: client, Server: file.Server(), Mapping: mapping, Namespace: first.Namespace()}}
	if timeout := flags.timeout; timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, timeout, exit.ErrTimedOut)
		defer cancel()
		ctx = timed
	}
	switch {
	case first.MetadataOnly():
		return show[*metav1.PartialObjectMetadata](ctx, v)
	case playback.Protobuf(file, first):
		return show[object.Object](ctx, v)
	}
	return show[*unstructured.Unstructured](ctx, v)
}

// played waits until the recording has ended and all its changes have been shown. It returns the reason
// for ending the view.
func (v *view) played(ctx context.Context, status func() sharedinformer.Status) error {
	if err := v.recording.Wait(ctx); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err, Hint: "the recorded informer behaved differently: other options or another version"}
	}
	if err := playback.Settled(ctx, status); err != nil {
		return err
	}
	return errPlayed
}

// choose returns the first request of the informer to replay, and makes the view use the informer's
// selectors.
func choose(file *recording.File, typed string, flags *Flags) (*recording.Request, error) {
	var arg object.GVR
	var err error
	if typed != "" {
		if arg, err = object.ParseResourceArg(typed); err != nil {
			return nil, exit.Usage("%w", err)
		}
	}
	found, has, err := playback.Recorded(file, func(q *recording.Request) bool {
		labels, fields := q.Selectors()
		return (typed == "" || playback.IsOf(q.Resource(), arg)) &&
			(flags.Namespace == "" || flags.Namespace == q.Namespace()) && (!flags.allNamespaces || q.Namespace() == "") &&
			(flags.selector == "" || flags.labels.String() == labels) && (flags.fieldSelector == "" || flags.fields.String() == fields) &&
			(!flags.metadataOnly || q.MetadataOnly())
	})
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, exit.Usage("%s has several informers: select one with TYPE, -n, -A, -l, --field-selector or --metadata-only; available: %s", file.Path, strings.Join(has, "; "))
	}
	if flags.labels, flags.fields, err = playback.Selectors(found[0]); err != nil {
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	return found[0], nil
}
