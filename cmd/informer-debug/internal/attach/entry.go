package attach

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/flight"
)

// WriteEntry writes when and where an event happened, and what it was.
func WriteEntry(b *strings.Builder, e *flight.Entry) {
	whose := string(e.Role)
	if e.Name != "" {
		whose += " " + e.Name
	}
	if e.Role == flight.Handler && e.Informer != "" && !strings.HasSuffix(e.Name, ": "+e.Informer) { // a controller's name already contains the informer's
		whose += " of " + e.Informer
	}
	fmt.Fprintf(b, "%s  %-28s  %s\n", e.At.Local().Format(time.DateOnly+" 15:04:05.000"), terminal.OneLine(whose), terminal.OneLine(e.What()))
}

// ErrEnded reports that the events of a process ended without a reason.
var ErrEnded = errors.New("the stream of events ended: the process has stopped, or is stopping")
