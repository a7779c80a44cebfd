package why

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// recollection is what a recording that has been played tells of one object.
type recollection struct {
	called   string
	informer *debug.Informer
	cached   *debug.Object // nil where the cache has none at the end
	entries  []flight.Entry
}

// describeRecorded shows what became of an object in a recording.
func describeRecorded(ctx context.Context, v *sight.Sight, w io.Writer, types, name string, last int) error {
	found, err := v.RecordedAs(types)
	switch {
	case err != nil:
		return err
	case len(found) != 1:
		return exit.Usage("%q means %d informers of %s: want one; -n may choose among them", types, len(found), v.Called)
	}
	o := &found[0]
	key := object.Key{Namespace: o.RecordedNamespace(v.Flags.Namespace), Name: name}
	if key.Namespace == "" && o.Target.Mapping.Namespaced {
		return exit.Usage("%s/%s is in a namespace: say which with -n", types, name)
	}
	r := recollection{called: types + "/" + name, informer: &debug.Informer{Status: o.Informer.Status()}}
	which := r.informer.Which()
	r.cached, err = v.Process.Object(ctx, which, key)
	if refused, ok := errors.AsType[*debug.RefusedError](err); ok && refused.Code == http.StatusNotFound {
		r.cached, err = nil, nil
	}
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	timeline, err := v.Process.Timeline(ctx, which.Informer, key)
	if err != nil {
		return v.Unanswered(ctx, err)
	}
	if r.entries = timeline.Entries; r.cached == nil && len(r.entries) == 0 {
		return &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("nothing is known of %s: it is not in the cache at the end of %s, and in no change before", r.called, v.Called)}
	}
	return exit.Unwritten(r.write(w, last))
}

// write leaves out when something happened: that was while it was played.
func (r *recollection) write(w io.Writer, last int) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "%s\n", terminal.OneLine(fmt.Sprintf(format, args...)))
	}
	upTo := terminal.OrDash(r.informer.RV)
	if o := r.cached; o != nil {
		line("At the end of the recording the cache has %s with version %s, and is complete up to version %s.", r.called, o.Head.RV, upTo)
		line("  generation %d, UID %s", o.Head.Generation, o.Head.UID)
	} else {
		line("At the end of the recording %s is not in the cache, which is complete up to version %s.", r.called, upTo)
	}
	entries := r.entries[max(0, len(r.entries)-last):]
	if len(entries) > 0 {
		b.WriteString("\n")
	}
	for n := range entries {
		line("%s", entries[n].What())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
