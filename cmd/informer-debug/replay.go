package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/test/apiserver"
	"github.com/millrace-dev/millrace/wire"
)

var errPlayed = errors.New("the recording is over")

// replayFlags are those that watch does not have.
type replayFlags struct {
	speed string
	times float64 // of speed, after check
}

func (f *replayFlags) check() error {
	if f.speed == "max" {
		f.times = math.Inf(1)
		return nil
	}
	times, err := strconv.ParseFloat(strings.TrimSuffix(f.speed, "x"), 64)
	if err != nil || !(times > 0) || math.IsInf(times, 0) {
		return usage("--speed %q: want a number above 0, such as 10, or max", f.speed)
	}
	f.times = times
	return nil
}

// timing is that of an informer for which time goes by as fast as it is played, but for
// what the machine itself may need.
func (f *replayFlags) timing() reflector.Timing {
	if f.times <= 1 {
		return reflector.Timing{}
	}
	scaled := func(d, least time.Duration) time.Duration { return max(time.Duration(float64(d)/f.times), least) }
	return reflector.Timing{
		WatchTimeout: scaled(5*time.Minute, 15*time.Second), WatchMargin: scaled(30*time.Second, time.Second),
		StallTimeout: scaled(time.Minute, 5*time.Second), StreamIdle: scaled(10*time.Second, 5*time.Second), StreamTimeout: scaled(5*time.Minute, 30*time.Second),
		Backoff: reflector.Backoff{Initial: scaled(800*time.Millisecond, time.Millisecond), Max: scaled(30*time.Second, time.Millisecond), Reset: scaled(2*time.Minute, time.Second)},
	}
}

func newReplay(s surroundings) *cobra.Command {
	var replay replayFlags
	var flags viewFlags
	cmd := &cobra.Command{
		Use:   "replay FILE [TYPE[.VERSION][.GROUP]]",
		Short: "Play a recording again, as watch shows it",
		Long: `replay plays what an informer received when it was recorded to another informer, and
shows what its handler hears. It needs no cluster, and ends with the recording. Without TYPE
it plays the only one that FILE has, or says which it has. With -n, -l and --field-selector
it chooses among several informers of one TYPE.

--speed 10 plays ten times as fast as recorded, and --speed max does not wait for anything but
a server that was silent.

` + viewHelp + `

` + exitHelp,
		Example: `  informer-debug replay bug.recording
  informer-debug replay bug.recording pods --speed max -o wide`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage("%d arguments: want FILE, and TYPE if the file has several", len(args))
			}
			return nil
		},
	}
	flags.add(cmd)
	_ = cmd.Flags().MarkHidden("snapshot") // which would not be the recording's
	cmd.Flags().StringVar(&replay.speed, "speed", "1", "how many times as fast as recorded, or max")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(replay.check(), flags.check()); err != nil {
			return err
		}
		file, err := recording.Open(args[0])
		if err != nil {
			return &exitError{code: exitRuntime, err: err}
		}
		defer file.Close()
		return replay.run(cmd.Context(), s, file, strings.Join(args[1:], ""), &flags)
	}
	return cmd
}

// run shows what a recording has of one TYPE.
func (f *replayFlags) run(ctx context.Context, s surroundings, file *recording.File, typed string, flags *viewFlags) error {
	first, err := choose(file, typed, flags)
	if err != nil {
		return err
	}
	c := newConsole(s, flags.verbose)
	requests := 0
	for _, q := range file.Requests {
		if informerOf(q) == informerOf(first) {
			requests++
		}
	}
	c.state(time.Now(), "%-12s  of %s: %d requests for %s, in %s", "recording", file.Began.Local().Format(time.DateTime), requests, informerOf(first), short(file.Duration))
	if file.Damage != nil {
		c.trouble(time.Now(), "%-12s  %v", "recording", file.Damage)
	}
	if n := file.LeftOut; n.Requests > 0 {
		c.trouble(time.Now(), "%-12s  its oldest %d requests were left out", "recording", n.Requests)
	}
	mapping, err := mappingOf(file, first)
	if err != nil {
		return &exitError{code: exitRuntime, err: err}
	}
	replay := file.Replay(recording.ReplayOptions{Speed: f.times, From: first.At})
	client, err := rest.NewClient(&config.Config{Replay: replay, Logger: c.logger()}, scheme.New())
	if err != nil {
		return &exitError{code: exitRuntime, err: err}
	}
	defer client.CloseIdleConnections()
	defer jitter.Longest()()
	j := &job{surroundings: s, flags: flags, console: c, timing: f.timing(), recording: replay}
	v := &view{job: j, target: target{client: client, server: file.Server(), mapping: mapping, namespace: first.Namespace()}}
	if timeout := flags.timeout; timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, timeout, errTimedOut)
		defer cancel()
		ctx = timed
	}
	switch {
	case first.MetadataOnly():
		return show[*metav1.PartialObjectMetadata](ctx, v)
	case strings.Contains(first.Answer.ContentType, wire.MediaProtobuf):
		return show[object.Object](ctx, v)
	}
	return show[*unstructured.Unstructured](ctx, v)
}

// judgeReplayed goes on after what was recorded, and stops where that ends.
func judgeReplayed(f *failure.Failure) failure.Verdict {
	if _, unrecorded := errors.AsType[*recording.UnrecordedError](f.Err); unrecorded {
		return failure.Stop
	}
	return failure.Retry
}

// played waits until a recording is over and all that came of it was shown. It returns the
// cause of the view's end.
func (v *view) played(ctx context.Context, status func() sharedinformer.Status) error {
	if err := v.recording.Wait(ctx); err != nil {
		return &exitError{code: exitRuntime, err: err, hint: "the recorded informer went another way: other options, or another version"}
	}
	if err := settled(ctx, status); err != nil {
		return err
	}
	return errPlayed
}

// choose returns the first request of the informer to be played, and makes its selectors
// those of the view.
func choose(file *recording.File, typed string, flags *viewFlags) (*recording.Request, error) {
	var arg object.GVR
	var err error
	if typed != "" {
		if arg, err = object.ParseResourceArg(typed); err != nil {
			return nil, usage("%w", err)
		}
	}
	found, has, err := recorded(file, func(q *recording.Request) bool {
		labels, fields := q.Selectors()
		return (typed == "" || isOf(q.Resource(), arg)) &&
			(flags.namespace == "" || flags.namespace == q.Namespace()) && (!flags.allNamespaces || q.Namespace() == "") &&
			(flags.selector == "" || flags.labels.String() == labels) && (flags.fieldSelector == "" || flags.fields.String() == fields) &&
			(!flags.metadataOnly || q.MetadataOnly())
	})
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, usage("%s has several informers: choose with TYPE, -n, -A, -l, --field-selector or --metadata-only; it has: %s", file.Path, strings.Join(has, "; "))
	}
	if flags.labels, flags.fields, err = selectorsOf(found[0]); err != nil {
		return nil, &exitError{code: exitRuntime, err: err}
	}
	return found[0], nil
}

// recorded returns the first request of each informer that is wanted, and the names of all.
func recorded(file *recording.File, wanted func(*recording.Request) bool) (found []*recording.Request, has []string, err error) {
	for _, q := range file.Requests {
		what := informerOf(q)
		if !slices.Contains(has, what) {
			has = append(has, what)
		}
		if wanted(q) && !slices.ContainsFunc(found, func(o *recording.Request) bool { return informerOf(o) == what }) {
			found = append(found, q)
		}
	}
	slices.Sort(has) // they began at the same time, in any order
	switch {
	case len(has) == 0:
		return nil, nil, &exitError{code: exitRuntime, err: fmt.Errorf("%s has no requests: nothing was received while it was recorded", file.Path)}
	case len(found) == 0:
		return nil, nil, usage("%s has nothing of that; it has: %s", file.Path, strings.Join(has, "; "))
	}
	return found, has, nil
}

// isOf reports whether a TYPE means a resource. A recording has no discovery: other names than
// the plural are known of built-in types alone.
func isOf(gvr, arg object.GVR) bool {
	called := gvr.Resource == arg.Resource
	for _, r := range apiserver.Builtin() {
		if r.Group == gvr.Group && r.Resource == gvr.Resource {
			kind := strings.ToLower(r.Kind)
			called = called || arg.Resource == kind || slices.Contains(r.ShortNames, arg.Resource)
		}
	}
	return called && (arg.Group == "" || arg.Group == gvr.Group) && (arg.Version == "" || arg.Version == gvr.Version)
}

// informerOf names the informer that sent a request.
func informerOf(q *recording.Request) string {
	text := object.ResourceName(q.Resource())
	if n := q.Namespace(); n != "" {
		text += " -n " + n
	}
	byLabels, byFields := q.Selectors()
	if byLabels != "" {
		text += " -l " + byLabels
	}
	if byFields != "" {
		text += " --field-selector " + byFields
	}
	if q.MetadataOnly() {
		text += " --metadata-only"
	}
	return text
}

// mappingOf is where the objects are served. The kind of built-in ones is known, and that of
// others stands in what was received.
func mappingOf(file *recording.File, q *recording.Request) (discovery.Mapping, error) {
	gvr := q.Resource()
	m := discovery.Mapping{Resource: gvr, Namespaced: q.Namespace() != ""}
	for kind := range scheme.New().KnownTypes(gvr.GroupVersion()) {
		if known, ok := discovery.Builtin(gvr.GroupVersion().WithKind(kind)); ok && known.Resource == gvr {
			return known, nil
		}
	}
	for _, other := range file.Requests {
		if informerOf(other) != informerOf(q) {
			continue
		}
		if kind := kindIn(file.Body(other)); kind != "" {
			m.Kind = gvr.GroupVersion().WithKind(kind)
			return m, nil
		}
	}
	return m, fmt.Errorf("%s: the kind of %s cannot be told: no object of it was received as JSON", file.Path, object.ResourceName(gvr))
}

// kindIn returns the kind of the objects in a list or a watch that is JSON, empty if there
// is none.
func kindIn(body io.Reader) string {
	in := json.NewDecoder(body)
	var at []string // the keys that lead to where in is; "" stands for an item of a list
	key := true     // whether a text is a key
	for {
		token, err := in.Token()
		if err != nil {
			return ""
		}
		inside := len(at) > 0 && at[len(at)-1] != ""
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				at, key = append(at, "."), true
				continue
			case '[':
				at, key = append(at, ""), false
				continue
			}
			at = at[:len(at)-1]
			inside = len(at) > 0 && at[len(at)-1] != ""
		case string:
			if inside && key {
				at[len(at)-1], key = "."+t, false
				continue
			}
			switch strings.Join(at, "") {
			case ".kind":
				if of, ok := strings.CutSuffix(t, "List"); ok && of != "" {
					return of
				}
			case ".object.kind", ".items.kind":
				if t != "Status" {
					return t
				}
			}
		}
		key = inside
	}
}
