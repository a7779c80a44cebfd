package attach

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/flight"
)

// Handlers of several informers may have the same name: the line of code that adds them.
func TestAnEntryNamesTheInformerOfAHandler(t *testing.T) {
	for name, want := range map[string]string{
		"auditor": "  handler auditor of pods in namespace shop  told",
		"controller keeper: pods in namespace shop": "  handler controller keeper: pods in namespace shop  told",
	} {
		var b strings.Builder
		WriteEntry(&b, &flight.Entry{
			Whose: flight.Whose{Role: flight.Handler, Name: name, Informer: "pods in namespace shop"},
			Event: flight.Event{Kind: flight.Told, At: time.Now()},
		})
		require.Contains(t, b.String(), want)
	}
}
