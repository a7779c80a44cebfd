package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
)

// getFlags are those of get alone.
type getFlags struct {
	search    string
	typ       string
	cluster   string
	output    choice
	noHeaders bool
}

func newGet(s surroundings) *cobra.Command {
	var look sightFlags
	flags := getFlags{output: choice{words: []string{"wide", "json", "name"}}}
	cmd := &cobra.Command{
		Use:   "get [TYPE [NAME] | TYPE/NAME]",
		Short: "Show what caches hold",
		Long: `get lists what the cache of an informer holds: key, resource version and owner of each
object. With NAME it shows one object, with its contents where the process allows it. Secrets
never show theirs.

` + sightHelp + `

With --attach, TYPE is the name of an informer as the process calls it, such as pods; without
TYPE get lists the informers.

` + attachHelp + `

` + exitHelp,
		Example: `  informer-debug get deploy,rs,po -n shop
  informer-debug get --attach http://localhost:6060
  informer-debug get pods -n shop -l app=web -o wide --attach http://localhost:6060
  informer-debug get pods/web-1 -n shop -o json --attach unix:/run/janitor.sock`,
		Args: cobra.MaximumNArgs(2),
	}
	look.add(cmd)
	f := cmd.Flags()
	f.StringVar(&flags.search, "search", "", "only names that have this in them")
	f.StringVar(&flags.typ, "type", "", "Go type of the objects, such as *v1.Pod, where several informers have one name")
	f.StringVar(&flags.cluster, "cluster-name", "", "cluster of the informer, where the process has several")
	f.VarP(&flags.output, "output", "o", "output format (default a table)")
	f.BoolVar(&flags.noHeaders, "no-headers", false, "print the table without a header")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := look.check(); err != nil {
			return err
		}
		return runGet(cmd.Context(), s, &look, &flags, args)
	}
	return cmd
}

func runGet(ctx context.Context, s surroundings, look *sightFlags, flags *getFlags, args []string) error {
	var types, name string
	named := len(args) == 2
	switch len(args) {
	case 2:
		types, name = args[0], args[1]
	case 1:
		types, name, named = strings.Cut(args[0], "/")
	}
	if strings.Contains(name, "/") || len(args) > 0 && types == "" || named && name == "" {
		return usage("%q: want TYPE, TYPE NAME or TYPE/NAME", strings.Join(args, " "))
	}
	if name != "" && look.allNamespaces {
		return usage("an object by its name is in one namespace: leave out -A, or say -n")
	}
	v, err := look.open(ctx, s, types, newConsole(s, false))
	if err != nil {
		return err
	}
	defer v.close()
	if err := v.wait(ctx); err != nil {
		return err
	}
	if types == "" {
		status, err := v.process.Status(ctx)
		if err != nil {
			return v.unanswered(ctx, err)
		}
		return unwritten(flags.writeInformers(s.stdout, status))
	}
	for n, informer := range v.names(types) {
		which := debug.Which{Informer: informer, Type: flags.typ, Cluster: flags.cluster}
		var asked, written error
		if name == "" {
			if n > 0 && flags.output.value != "json" && flags.output.value != "name" {
				fmt.Fprintln(s.stdout) // an error is that of the next line
			}
			asked, written = flags.list(ctx, s.stdout, v, which)
		} else {
			var o *debug.Object
			if o, asked = v.process.Object(ctx, which, object.Key{Namespace: v.namespace(n), Name: name}); asked == nil {
				written = debug.WriteJSON(s.stdout, o)
			}
		}
		if asked != nil {
			return v.unanswered(ctx, asked)
		}
		if written != nil {
			return unwritten(written)
		}
	}
	return nil
}

// unwritten is the error for an output that could not be written; nil for none.
func unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitRuntime, err: fmt.Errorf("stdout: %w", err)}
}

// list writes all pages of what a cache holds.
func (f *getFlags) list(ctx context.Context, w io.Writer, v *sight, which debug.Which) (asked, written error) {
	page := debug.Page{Namespace: v.flags.namespace, Selector: v.flags.selector, Search: f.search, Limit: 500}
	t := f.table(w, "NAMESPACE\tNAME\tRV\tGENERATION\tOWNER", "\tUID\tLABELS")
	for {
		objects, err := v.process.Objects(ctx, which, page)
		if err != nil {
			return err, t.flush()
		}
		for n := range objects.Heads {
			if err := f.writeHead(t, objects, &objects.Heads[n]); err != nil {
				return nil, err
			}
		}
		if page.Continue = objects.Continue; page.Continue == "" {
			return nil, t.flush()
		}
	}
}

func (f *getFlags) writeHead(t *table, of *debug.Objects, h *debug.Head) error {
	switch f.output.value {
	case "json":
		return debug.WriteJSON(t.w, h)
	case "name":
		resource, _, _ := strings.Cut(of.Informer, " ") // "in namespace shop" may follow
		_, err := fmt.Fprintf(t.w, "%s/%s\n", oneLine(resource), oneLine(h.Name))
		return err
	}
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
	return t.row(orDash(h.Namespace), h.Name, h.RV, generation, owner, h.UID, labelsText(h.Labels))
}

// writeInformers writes one line for each informer.
func (f *getFlags) writeInformers(w io.Writer, status *debug.Status) error {
	if f.output.value == "json" {
		return debug.WriteJSON(w, status.Informers)
	}
	t := f.table(w, "INFORMER\tSTATE\tSYNCED\tOBJECTS\tRV\tHANDLERS\tBEHIND\tFAILURES", "\tTYPE\tSTORE\tCLUSTER")
	for n := range status.Informers {
		i := &status.Informers[n]
		if f.output.value == "name" {
			if _, err := fmt.Fprintln(w, oneLine(i.Reflector.Resource)); err != nil {
				return err
			}
			continue
		}
		behind, most := "-", time.Duration(0)
		for _, h := range i.Handlers {
			if h.Behind > most {
				behind, most = short(h.Behind), h.Behind
			}
		}
		err := t.row(i.Reflector.Resource, i.Reflector.State.String(), strconv.FormatBool(i.Synced), strconv.Itoa(i.Objects), orDash(i.RV),
			strconv.Itoa(len(i.Handlers)), behind, strconv.FormatUint(i.Reflector.Failures, 10), orDash(i.Type), i.Store.String(), orDash(i.Cluster))
		if err != nil {
			return err
		}
	}
	return t.flush()
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

// table aligns columns. Those behind the short ones are for -o wide.
type table struct {
	w     io.Writer
	tabs  *tabwriter.Writer
	short int
	wide  bool
}

func (f *getFlags) table(w io.Writer, header, more string) *table {
	t := &table{w: w, tabs: tabwriter.NewWriter(w, 0, 0, 3, ' ', 0), short: strings.Count(header, "\t") + 1, wide: f.output.value == "wide"}
	if t.wide {
		header += more
	}
	if f.output.value != "json" && f.output.value != "name" && !f.noHeaders {
		fmt.Fprintln(t.tabs, header) // an error is flush's
	}
	return t
}

func (t *table) row(cells ...string) error {
	if !t.wide {
		cells = cells[:t.short]
	}
	for n := range cells {
		cells[n] = strings.ReplaceAll(oneLine(cells[n]), "\t", " ")
	}
	_, err := fmt.Fprintln(t.tabs, strings.Join(cells, "\t"))
	return err
}

func (t *table) flush() error { return t.tabs.Flush() }
