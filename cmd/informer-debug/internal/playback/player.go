package playback

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Help describes --replay, for a command's help.
const Help = `--replay FILE replays a recording to informers instead of using a cluster. Without TYPE, it
replays all recorded informers.`

// Flags holds the flags of a command that can read a recording.
type Flags struct {
	Speed
	File string // value of --replay; empty for none
}

// Add registers the flags. speed is the default speed for commands that can show the recording while it is
// replayed. Commands that show only the final state pass "".
func (f *Flags) Add(cmd *cobra.Command, speed string) {
	cmd.Flags().StringVar(&f.File, "replay", "", "recording to use instead of a cluster, as written by record")
	if f.Text = "max"; speed != "" {
		cmd.Flags().StringVar(&f.Text, "speed", speed, "with --replay: speed as a multiple of real time, or max")
	}
}

// Refuse makes a command that cannot use recordings reject --replay and suggest an alternative.
func Refuse(cmd *cobra.Command, instead string) {
	file := cmd.Flags().String("replay", "", "")
	_ = cmd.Flags().MarkHidden("replay") // fails only if the flag does not exist
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *file == "" {
			return nil
		}
		return exit.Usage("--replay: %s", fmt.Sprintf(instead, *file))
	}
}

// Player is a recording being replayed.
type Player struct {
	Client *rest.Client         // answered from the recording
	Found  []*recording.Request // the first request of each informer being replayed

	file    *recording.File
	replay  *recording.Replay
	began   time.Duration // time of the first replayed request
	restore func()        // restores the jitter
}

// Open opens a recording and replays its informers. If types or namespace is not empty, it replays only
// the matching informers.
func (f *Flags) Open(types, namespace string, c *terminal.Console) (*Player, error) {
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
	file, err := recording.Open(f.File)
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

func (f *Flags) play(file *recording.File, args []object.GVR, namespace string, c *terminal.Console) (*Player, error) {
	found, has, err := Recorded(file, func(q *recording.Request) bool {
		ok := len(args) == 0
		for _, arg := range args {
			ok = ok || IsOf(q.Resource(), arg)
		}
		return ok && (namespace == "" || q.Namespace() == "" || namespace == q.Namespace())
	})
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		if !slices.ContainsFunc(found, func(q *recording.Request) bool { return IsOf(q.Resource(), arg) }) {
			return nil, exit.Usage("%s contains nothing for %s; it contains: %s", file.Path, object.ResourceName(arg), strings.Join(has, "; "))
		}
	}
	if file.Damage != nil {
		c.Trouble(time.Now(), "%-12s  %v", "recording", file.Damage)
	}
	if found, err = withoutSecrets(file, found, len(args) > 0, c); err != nil {
		return nil, err
	}
	p := &Player{file: file, Found: found, began: found[0].At}
	for _, q := range found {
		p.began = min(p.began, q.At)
	}
	p.replay = file.Replay(recording.ReplayOptions{Speed: f.Times, From: p.began, Only: Only(found...)})
	p.Client, err = rest.NewClient(&config.Config{Replay: p.replay, Logger: c.Logger()}, scheme.New())
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: err}
	}
	p.restore = jitter.Longest()
	return p, nil
}

// withoutSecrets drops informers for Secrets whose contents were not recorded, and reports that. It returns
// an error if the user asked for Secrets, or if nothing is left.
func withoutSecrets(file *recording.File, found []*recording.Request, asked bool, c *terminal.Console) ([]*recording.Request, error) {
	const withheld = "the contents of Secrets were not recorded"
	all := map[string][]*recording.Request{}
	for _, q := range file.Requests {
		all[InformerOf(q)] = append(all[InformerOf(q)], q)
	}
	left := slices.DeleteFunc(slices.Clone(found), func(q *recording.Request) bool { return recording.AllWithheld(all[InformerOf(q)]) })
	switch {
	case len(left) == len(found):
	case asked || len(left) == 0:
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: errors.New(withheld), Hint: "record again with --include-secrets, or the recorder's option IncludeSecrets"}
	default:
		c.Trouble(time.Now(), "%-12s  %s", "recording", withheld)
	}
	return left, nil
}

// Protobuf reports whether the informer that sent a request received protobuf.
func (p *Player) Protobuf(q *recording.Request) bool { return Protobuf(p.file, q) }

// Called returns the name used in messages.
func (p *Player) Called() string {
	return fmt.Sprintf("%s, recorded at %s", p.file.Path, p.file.Began.Local().Format(time.DateTime))
}

// Target returns the target of the informer that sent a request.
func (p *Player) Target(q *recording.Request) (cluster.Target, error) {
	mapping, err := Mapping(p.file, q)
	return cluster.Target{Client: p.Client, Server: p.Called(), Mapping: mapping, Namespace: q.Namespace()}, err
}

// Length returns the duration of the replayed part of the recording.
func (p *Player) Length() time.Duration { return p.file.Duration - p.began }

// Over waits until the recording ends.
func (p *Player) Over(ctx context.Context) error {
	if err := p.replay.Wait(ctx); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: err, Hint: "the recorded informer behaved differently: other options or another version"}
	}
	return nil
}

// Close stops the replay. The caller must close the client.
func (p *Player) Close() {
	p.restore()
	p.file.Close()
}

// Settled waits until everything an informer received has reached its cache and handlers.
func Settled(ctx context.Context, status func() sharedinformer.Status) error {
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
