package view

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/demo"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// Job shows one resource on one server.
type Job struct {
	terminal.Streams
	Config  *config.Config    // of the server
	Arg     object.GVR        // as typed
	Flags   *Flags            // what to show, and how
	Console *terminal.Console // for everything except data
	Timing  reflector.Timing  // the reflector's timing; zero means its defaults

	// recording is the recording being replayed, or nil for a server. The view stops at the end of the
	// recording, but not on recorded failures.
	recording *recording.Replay

	// Company, if not nil, runs the rest of the informer's program.
	Company *demo.Company
}

// Run shows the resource until ctx is done or --timeout has passed.
func (j *Job) Run(ctx context.Context) error {
	if timeout := j.Flags.timeout; timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, timeout, exit.ErrTimedOut)
		defer cancel()
		ctx = timed
	}
	t, err := j.connect(ctx)
	if t.Client != nil {
		defer t.Client.CloseIdleConnections()
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	v := &view{Job: j, target: t}
	if j.Flags.metadataOnly {
		return show[*metav1.PartialObjectMetadata](ctx, v)
	}
	return show[*unstructured.Unstructured](ctx, v)
}

// connect connects to the server and resolves TYPE. The caller must close the target's client if there
// is one, even after an error.
func (j *Job) connect(ctx context.Context) (cluster.Target, error) {
	t := cluster.Target{Server: cluster.ServerName(j.Config.Host)}
	client, err := rest.NewClient(j.Config, nil)
	if err != nil {
		return t, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	t.Client = client
	if t.Mapping, err = t.Resolve(ctx, j.Arg, cluster.Patience(j.Config), j.Console); err != nil {
		if errors.Is(context.Cause(ctx), exit.ErrTimedOut) {
			return t, j.Flags.timedOut(cluster.RootCause(err))
		}
		if ctx.Err() != nil {
			return t, nil
		}
		return t, t.Unavailable(cluster.RootCause(err), err)
	}
	if !cluster.CanWatch(t.Mapping) {
		return t, cluster.Unwatchable(t.Mapping)
	}
	switch {
	case !t.Mapping.Namespaced:
		if n := j.Flags.Namespace; n != "" {
			j.Console.Trouble(time.Now(), "%s are not namespaced: ignoring -n %s", t, n)
		}
	case !j.Flags.allNamespaces:
		t.Namespace = j.Config.Namespace
	}
	return t, nil
}
