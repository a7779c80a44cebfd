package get

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
)

// informers shows a process's informers, one per line or as objects.
func (g *getter) informers(ctx context.Context) error {
	if g.order != nil || g.showLabels || len(g.labelColumns) > 0 {
		return exit.Usage("--sort-by, --show-labels and --label-columns apply to objects: specify a TYPE")
	}
	status, err := g.sight.Process.Status(ctx)
	if err != nil {
		return g.sight.Unanswered(ctx, err)
	}
	switch {
	case g.output.Form == output.JSON:
		return exit.Unwritten(debug.WriteJSON(g.Out, status.Informers))
	case g.output.NeedsObjects():
		var b bytes.Buffer
		var trees []map[string]any
		if err := debug.WriteJSON(&b, status.Informers); err != nil {
			return err
		}
		if err := json.Unmarshal(b.Bytes(), &trees); err != nil {
			return err
		}
		return exit.Unwritten(g.trees(trees, false))
	case g.output.Form == output.Name:
		for _, name := range sight.Distinct(status.Informers) {
			if _, err := fmt.Fprintln(g.Out, terminal.OneLine(name)); err != nil {
				return exit.Unwritten(err)
			}
		}
		return nil
	}
	t := g.table("INFORMER", "STATE", "SYNCED", "OBJECTS", "RV", "HANDLERS", "BEHIND", "FAILURES")
	if g.output.Form == output.Wide {
		t.Header = append(t.Header, "TYPE", "STORE", "CLUSTER")
	}
	names := sight.Distinct(status.Informers)
	for n := range status.Informers {
		i := &status.Informers[n]
		behind, most := "-", time.Duration(0)
		for _, h := range i.Handlers {
			if h.Behind > most {
				behind, most = terminal.Duration(h.Behind), h.Behind
			}
		}
		t.Row(names[n], i.Reflector.State.String(), strconv.FormatBool(i.Synced), strconv.Itoa(i.Objects), terminal.OrDash(i.RV),
			strconv.Itoa(len(i.Handlers)), behind, strconv.FormatUint(i.Reflector.Failures, 10), terminal.OrDash(i.Type), i.Store.String(), terminal.OrDash(i.Cluster))
	}
	return exit.Unwritten(t.Write())
}
