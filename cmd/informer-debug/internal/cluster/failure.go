package cluster

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/wire"
)

// FailureText describes a failure briefly: phase, object, reason and number of attempts. It omits the
// resource, since there is only one.
func FailureText(f *failure.Failure) string {
	resource, _, _ := strings.Cut(f.Resource, " with ")
	text := failure.Reason(f.Err)
	for _, verb := range []string{"list", "watch"} {
		text = strings.Replace(text, verb+" "+resource+": ", "", 1)
	}
	if !strings.HasPrefix(text, string(f.Phase)+" ") {
		text = fmt.Sprintf("%s: %s", f.Phase, text)
	}
	if key := object.FormatKey(f.Key); f.Key != (object.Key{}) && !strings.Contains(text, key) {
		text += " (" + key + ")"
	}
	if f.Attempts > 1 {
		text += fmt.Sprintf(" (%d in a row)", f.Attempts)
	}
	return text
}

// firstTries is how many attempts at the initial list may fail before the server is considered unavailable.
// They take about three seconds.
const firstTries = 3

// Judge decides whether to retry after a failure. Before the first sync the user is waiting, so Judge gives
// up after repeated errors and on errors that retrying rarely fixes. After it, Judge always retries.
func Judge(f *failure.Failure, synced bool) failure.Verdict {
	if synced {
		return failure.Retry
	}
	if f.Refused() || rejected(f.Err) || f.Attempts >= firstTries {
		return failure.Stop
	}
	return failure.Retry
}

// rejected reports whether the server rejected the request itself, for example an unknown field selector.
func rejected(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// Refusal returns the error to report for a failure before the first sync.
func (t Target) Refusal(f *failure.Failure) error {
	e := t.Unavailable(fmt.Errorf("%s", FailureText(f)), f.Err)
	_, undecodable := errors.AsType[*wire.Error](f.Err)
	_, unrecorded := errors.AsType[*recording.UnrecordedError](f.Err)
	switch {
	case rejected(f.Err):
		e.Code, e.Hint = exit.CodeUsage, "the server rejects the request: check --field-selector, --selector and --initial"
	case undecodable, unrecorded:
		e.Code, e.Hint = exit.CodeRuntime, ""
	}
	return e
}

// ShowState prints a state change of a reflector that watches the target.
func (t Target) ShowState(c *terminal.Console, s reflector.Status) {
	name := func(text string) string { return fmt.Sprintf("%-12s  %s", s.State, text) }
	switch s.State {
	case reflector.BackingOff:
		c.Trouble(s.Since, "%s", name(fmt.Sprintf("%s: %s", terminal.Duration(s.RetryAt.Sub(s.Since)), FailureText(s.Failure))))
	case reflector.InitialWatch, reflector.Listing:
		what := t.String()
		switch {
		case s.RV != "" && s.Attempts == 0:
			what = "again, with the slots that came"
		case s.RV != "":
			what = "again, the changes after rv " + s.RV + " are gone"
		}
		c.State(s.Since, "%s", name(what))
	case reflector.Resuming:
		c.State(s.Since, "%s", name(t.String()+", from a snapshot"))
	case reflector.Watching:
		c.State(s.Since, "%s", name("from rv "+s.RV))
	}
}
