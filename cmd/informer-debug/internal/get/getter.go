package get

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// getter shows the contents of caches.
type getter struct {
	*getFlags
	terminal.Streams
	sight   *sight.Sight
	console *terminal.Console

	rows    *terminal.Table // the table that --watch extends
	printed int             // number of objects printed by --watch
}

// group contains the objects of one informer.
type group []item

// objects shows the objects of the informers selected by types, or the object with the given name.
func (g *getter) objects(ctx context.Context, types, name string) error {
	trees := g.output.NeedsObjects() || g.order != nil
	var groups []group
	for n, informer := range g.sight.Names(types) {
		which := debug.Which{Informer: informer, Type: g.typ, Cluster: g.cluster}
		var found group
		var err error
		if name == "" {
			found, err = readAll(ctx, g.sight, which, g.search, trees)
		} else {
			var one *item
			if one, err = readObject(ctx, g.sight, which, object.Key{Namespace: g.sight.Namespace(n), Name: name}, true); one != nil {
				found = group{*one}
			}
		}
		if err != nil || ctx.Err() != nil {
			return err
		}
		groups = append(groups, found)
	}
	if !g.output.OfTable() && g.output.Form != output.Name { // a single table or list
		groups = []group{slices.Concat(groups...)}
	}
	if trees {
		g.noteWithheld(groups)
	}
	if len(slices.Concat(groups...)) == 0 {
		g.noteNothing(ctx, types)
	}
	g.noteTrouble(ctx, types)
	if err := g.sort(groups); err != nil {
		return err
	}
	return exit.Unwritten(g.print(ctx, groups, name != ""))
}

// noteTrouble explains why a process's objects may differ from the server's.
func (g *getter) noteTrouble(ctx context.Context, types string) {
	if g.sight.Flags.To == "" {
		return
	}
	status, err := g.sight.Process.Status(ctx)
	var informers []debug.Informer
	if err == nil {
		informers, err = sight.Choose(status.Informers, types, true)
	}
	if err != nil { // the objects are shown anyway
		g.console.Trouble(time.Now(), "%-12s  cannot determine whether the cache is current: %v", "doubt", err)
		return
	}
	for n := range informers {
		i := &informers[n]
		if g.cluster != "" && i.Cluster != g.cluster || g.typ != "" && i.Type != g.typ {
			continue
		}
		name := i.Reflector.Resource
		switch trouble := i.Trouble(status.At); {
		case !i.Synced:
			g.console.Trouble(time.Now(), "%-12s  %s has no complete initial list: %v", "incomplete", name, i.Reflector.Missing())
		case trouble != "":
			g.console.Trouble(time.Now(), "%-12s  %s is at version %s: %s", "stale", name, terminal.OrDash(i.RV), trouble)
		}
	}
}

// noteWithheld prints how many objects' contents are withheld, and why.
func (g *getter) noteWithheld(groups []group) {
	withheld, of, why := 0, 0, ""
	for _, one := range slices.Concat(groups...) {
		if of++; one.withheld != "" {
			withheld, why = withheld+1, one.withheld
		}
	}
	if withheld > 0 {
		g.console.Trouble(time.Now(), "%-12s  only the metadata of %d of %d objects is shown: %s", "contents", withheld, of, why)
	}
}

// noteNothing prints that there are no objects, and a possible reason.
func (g *getter) noteNothing(ctx context.Context, types string) {
	where := "the cache"
	if ns := g.sight.Flags.Namespace; ns != "" {
		where += " of namespace " + ns
	}
	g.console.State(time.Now(), "%-12s  no %s are in %s", "nothing", types, where)
	for _, o := range g.sight.Informers {
		if o.Target.Namespace != "" && g.sight.Played == nil {
			o.Target.DoubtNamespace(ctx, g.console)
			return
		}
	}
}

func (g *getter) sort(groups []group) error {
	if g.order == nil {
		return nil
	}
	found, withheld := false, ""
	for _, one := range groups {
		if found = sortBy(*g.order, one) || found; len(one) > 0 {
			withheld = one[0].withheld
		}
	}
	if !found && withheld != "" {
		return exit.Usage("--sort-by %s: no object has a visible value there: %s", g.sortBy, withheld)
	}
	return nil
}

// print prints the objects. If single is true, there is exactly one, requested by name.
func (g *getter) print(ctx context.Context, groups []group, single bool) error {
	for n, all := range groups {
		switch g.output.Form {
		case "", output.Wide:
			if n > 0 {
				fmt.Fprintln(g.Out) // the next write reports the same error
			}
			done, err := false, error(nil)
			if g.serverPrint && g.sight.Flags.To == "" && g.sight.Played == nil {
				done, err = g.asServerPrints(ctx, &g.sight.Informers[n], all)
			}
			if err == nil && !done {
				err = g.heads(all)
			}
			if err != nil {
				return err
			}
		case output.Name:
			for _, one := range all {
				if _, err := fmt.Fprintf(g.Out, "%s/%s\n", terminal.OneLine(one.resource), terminal.OneLine(one.head.Name)); err != nil {
					return err
				}
			}
		default:
			trees := make([]map[string]any, len(all))
			for n := range all {
				trees[n] = all[n].tree
			}
			if err := g.trees(trees, single); err != nil {
				return err
			}
		}
	}
	return nil
}

// trees prints objects in one of the formats that need whole objects.
func (g *getter) trees(trees []map[string]any, single bool) error {
	if g.output.Form != output.Columns {
		return g.output.Document(g.Out, g.OutTerminal, trees, single)
	}
	t := g.columnTable()
	for _, tree := range trees {
		t.Row(g.columnCells(tree)...)
	}
	return t.Write()
}

// columnTable returns a table with custom columns.
func (g *getter) columnTable() *terminal.Table {
	t := g.table()
	for n := range g.output.Columns {
		t.Header = append(t.Header, g.output.Columns[n].Header)
	}
	return t
}

// columnCells returns an object's cells.
func (g *getter) columnCells(tree map[string]any) (cells []string) {
	for n := range g.output.Columns {
		cells = append(cells, g.output.Columns[n].Cell(tree))
	}
	return cells
}

// heads prints one line per object.
func (g *getter) heads(all []item) error {
	t := g.headTable()
	for n := range all {
		t.Row(g.headCells(&all[n].head)...)
	}
	return t.Write()
}

// headTable returns a table with fields from the heads as columns.
func (g *getter) headTable() *terminal.Table {
	t := g.table("NAMESPACE", "NAME", "RV", "GENERATION", "OWNER")
	if g.output.Form == output.Wide {
		t.Header = append(t.Header, "UID", "LABELS")
	}
	g.labelHeaders(t)
	return t
}

func (g *getter) headCells(h *debug.Head) []string {
	owner := "-"
	for _, o := range h.Owners {
		if o.Controller || len(h.Owners) == 1 {
			owner = o.Kind + "/" + o.Name
		}
	}
	generation := "-"
	if h.Generation > 0 {
		generation = strconv.FormatInt(h.Generation, 10)
	}
	cells := []string{terminal.OrDash(h.Namespace), h.Name, h.RV, generation, owner}
	if g.output.Form == output.Wide {
		cells = append(cells, h.UID, labelsText(h.Labels))
	}
	return g.labelCells(cells, h.Labels)
}

// labelHeaders adds the columns of --label-columns and --show-labels.
func (g *getter) labelHeaders(t *terminal.Table) {
	for _, name := range g.labelColumns {
		t.Header = append(t.Header, strings.ToUpper(name[strings.LastIndex(name, "/")+1:]))
	}
	if g.showLabels && !slices.Contains(t.Header, "LABELS") {
		t.Header = append(t.Header, "LABELS")
	}
}

// labelCells adds the cells for the columns of labelHeaders.
func (g *getter) labelCells(cells []string, labels map[string]string) []string {
	for _, name := range g.labelColumns {
		cells = append(cells, labels[name])
	}
	return append(cells, labelsText(labels)) // Row drops a surplus cell
}

func labelsText(all map[string]string) string {
	if len(all) == 0 {
		return "-"
	}
	var b []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b = append(b, name+"="+all[name])
	}
	return strings.Join(b, ",")
}

func (g *getter) table(header ...string) *terminal.Table {
	return &terminal.Table{To: g.Out, Header: header, NoHeaders: g.noHeaders}
}
