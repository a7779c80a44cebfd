package main

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// failureText is a failure in a few words: phase, object, reason, how often.
// The resource is not named, since there is only one.
func failureText(f *failure.Failure) string {
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
