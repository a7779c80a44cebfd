package main

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// failureText is a failure in a few words: phase, object, reason, how often.
// The resource is not named, there is only one.
func failureText(f *reflector.Failure) string {
	reason := reflector.Reason(f.Err)
	text := reason
	if first, _, _ := strings.Cut(string(f.Phase), " "); !strings.HasPrefix(reason, first+" ") {
		text = fmt.Sprintf("%s: %s", f.Phase, reason)
	}
	if key := object.FormatKey(f.Key); f.Key != (object.Key{}) && !strings.Contains(text, key) {
		text += " (" + key + ")"
	}
	if f.Attempts > 1 {
		text += fmt.Sprintf(" (%d in a row)", f.Attempts)
	}
	return text
}
