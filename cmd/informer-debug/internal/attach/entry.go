package attach

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/flight"
)

// WriteEntry writes an event on one line, with the time and the component where it happened.
func WriteEntry(b *strings.Builder, e *flight.Entry) {
	whose := string(e.Role)
	if e.Name != "" {
		whose += " " + e.Name
	}
	if e.Role == flight.Handler && e.Informer != "" && !strings.HasSuffix(e.Name, ": "+e.Informer) { // the names of controllers' handlers already include the informer's
		whose += " of " + e.Informer
	}
	fmt.Fprintf(b, "%s  %-28s  %s\n", e.At.Local().Format(time.DateOnly+" 15:04:05.000"), terminal.OneLine(whose), terminal.OneLine(e.What()))
}

// ErrEnded means that a process closed its event stream without an error.
var ErrEnded = errors.New("the event stream ended: the process has stopped, or is stopping")
