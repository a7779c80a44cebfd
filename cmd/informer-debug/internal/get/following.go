package get

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// The kinds of a rowChange, named as in a watch.
const (
	rowAdded    = "ADDED"
	rowModified = "MODIFIED"
	rowDeleted  = "DELETED"
)

// rowChange is an added, modified or deleted object.
type rowChange struct {
	event string
	item  item
	begun bool  // the initial objects are complete
	err   error // why the changes ended
}

// follow shows one informer's objects, or a single one of them, and then the changes.
func (g *getter) follow(ctx context.Context, types, name string) error {
	names := g.sight.Names(types)
	if len(names) != 1 {
		return exit.Usage("%q matches %d informers: --watch follows one TYPE", types, len(names))
	}
	ctx, stop := context.WithCancel(ctx)
	var feeding sync.WaitGroup
	defer feeding.Wait()
	defer stop()
	changes := make(chan rowChange)
	send := func(c rowChange) bool {
		select {
		case changes <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if g.sight.Flags.To == "" {
		g.listen(name, send)
	} else {
		p := &poll{getter: g, which: debug.Which{Informer: names[0], Type: g.typ, Cluster: g.cluster}, name: name, send: send}
		feeding.Go(func() { p.run(ctx) })
	}
	var first group
	for begun := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case c := <-changes:
			switch {
			case c.err != nil:
				return c.err
			case c.begun:
				begun = true
				if err := g.begin(ctx, types, first); err != nil {
					return err
				}
			case !begun:
				first = append(first, c.item)
			default:
				if err := g.printChange(c); err != nil {
					return exit.Unwritten(err)
				}
			}
			if g.count > 0 && g.printed >= g.count {
				return nil
			}
		}
	}
}

// begin shows the initial objects.
func (g *getter) begin(ctx context.Context, types string, first group) error {
	groups := []group{first}
	if g.output.NeedsObjects() {
		g.noteWithheld(groups)
	}
	if err := g.sort(groups); err != nil {
		return err
	}
	if len(first) == 0 {
		g.noteNothing(ctx, types)
	}
	if g.watchOnly {
		first = nil
	}
	for n, one := range first {
		if g.count > 0 && n == g.count {
			break
		}
		if err := g.add(rowChange{event: rowAdded, item: one}); err != nil {
			return exit.Unwritten(err)
		}
	}
	if g.rows == nil {
		return nil
	}
	return exit.Unwritten(g.rows.Write())
}

// printChange prints one change.
func (g *getter) printChange(c rowChange) error {
	if err := g.add(c); err != nil || g.rows == nil {
		return err
	}
	return g.rows.Write()
}

// add prints an object, or adds a row for it to the table.
func (g *getter) add(c rowChange) error {
	g.printed++
	switch g.output.Form {
	case "", output.Wide, output.Columns:
		g.addRow(c)
		return nil
	case output.Name:
		_, err := fmt.Fprintf(g.Out, "%s/%s\n", terminal.OneLine(c.item.resource), terminal.OneLine(c.item.head.Name))
		return err
	}
	tree := c.item.tree
	if g.watchEvents {
		tree = map[string]any{"type": c.event, "object": tree}
	}
	if g.output.Form == output.YAML && g.printed > 1 {
		if _, err := fmt.Fprintln(g.Out, "---"); err != nil {
			return err
		}
	}
	return g.output.Document(g.Out, g.OutTerminal, []map[string]any{tree}, true)
}

func (g *getter) addRow(c rowChange) {
	var cells []string
	if g.output.Form == output.Columns {
		cells = g.columnCells(c.item.tree)
	} else {
		cells = g.headCells(&c.item.head)
	}
	if g.watchEvents {
		cells = append([]string{c.event}, cells...)
	}
	if g.rows == nil {
		if g.rows = g.headTable(); g.output.Form == output.Columns {
			g.rows = g.columnTable()
		}
		if g.watchEvents {
			g.rows.Header = append([]string{"EVENT"}, g.rows.Header...)
		}
	}
	g.rows.Row(cells...)
}

// listen sends all changes from one of our own informers.
func (g *getter) listen(name string, send func(rowChange) bool) {
	o := g.sight.Informers[0]
	of := o.Informer.(*sharedinformer.Informer[*unstructured.Unstructured]) // informers on a cluster have this type
	resource := sight.Resource(o.Status().Reflector.Resource)
	handler := sharedinformer.HandlerFunc[*unstructured.Unstructured](func(_ context.Context, e sharedinformer.Event[*unstructured.Unstructured]) error {
		if name != "" && e.Object.GetName() != name || !strings.Contains(e.Object.GetName(), g.search) {
			return nil
		}
		c := rowChange{item: itemOf(resource, e.Object)}
		switch e.Type {
		case sharedinformer.Add:
			c.event = rowAdded
		case sharedinformer.Update:
			c.event = rowModified
		default:
			c.event = rowDeleted
		}
		send(c)
		return nil
	})
	of.AddHandlerWith(handler, sharedinformer.HandlerOptions{Name: "get", OnSync: func() { send(rowChange{begun: true}) }})
}
