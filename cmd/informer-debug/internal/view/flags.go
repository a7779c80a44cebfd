package view

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/snapshot"
)

// Flags say what to watch and how to show it.
type Flags struct {
	Namespace     string // -n
	allNamespaces bool
	selector      string
	fieldSelector string
	metadataOnly  bool
	snapshot      string
	initial       output.Choice

	output    output.Choice
	diff      bool
	stage     bool
	onlyTexts []string
	noHeaders bool
	watchOnly bool
	Verbose   bool // --verbose

	count   int
	timeout time.Duration

	labels labels.Selector // of selector, after check
	fields fields.Selector // of fieldSelector, after check
	only   []jsonpath.Path // of onlyTexts, after check
}

// Add adds them to a verb.
func (f *Flags) Add(cmd *cobra.Command) {
	f.initial = output.Choice{Value: reflector.Auto.String(), Words: []string{
		reflector.Auto.String(), reflector.WatchList.String(), reflector.List.String()}}
	f.output = output.Choice{Words: []string{"wide", "json", "jsonl", "name"}}

	flags := cmd.Flags()
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace to watch")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "watch all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	flags.StringVar(&f.fieldSelector, "field-selector", "", "field selector, such as metadata.name=web-1")
	flags.BoolVar(&f.metadataOnly, "metadata-only", false, "ask for the metadata of the objects alone")
	flags.StringVar(&f.snapshot, "snapshot", "", "directory in which to keep what was seen, so that the next call need not list it")
	flags.Var(&f.initial, "initial", "how the initial state is read: streamed where the server can, streamed, or listed")
	f.output.Add(cmd, "output format (default a table)")
	flags.BoolVar(&f.diff, "diff", false, "below each update, a line for each field that changed, with its old and new value")
	flags.BoolVar(&f.stage, "stage", false, "show when a change was received, decoded, queued, applied and told, in the place of how long it took")
	flags.StringArrayVar(&f.onlyTexts, "only", nil, "only changes of that field, such as status.phase or '{.spec.containers[*].image}'; may be repeated")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "print the table without a header")
	flags.BoolVar(&f.watchOnly, "watch-only", false, "do not show the initial objects")
	flags.BoolVar(&f.Verbose, "verbose", false, "show each request on stderr")
	flags.IntVarP(&f.count, "count", "c", 0, "end after that many changes were shown, initial objects included; 0 is no end")
	flags.DurationVar(&f.timeout, "timeout", 0, "end after that time, with exit code 124; 0 is no end")
	for name, words := range map[string][]string{"output": f.output.Words, "initial": f.initial.Words} {
		// It fails only for a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// Check finds contradictions and reads the selectors.
func (f *Flags) Check() (err error) {
	switch {
	case f.allNamespaces && f.Namespace != "":
		return exit.Usage("-n %s and -A contradict each other: leave one out", f.Namespace)
	case f.Namespace != "" && len(validation.IsDNS1123Label(f.Namespace)) > 0:
		return exit.Usage("--namespace %q: want the name of one namespace, or -A for all", f.Namespace)
	case f.count < 0:
		return exit.Usage("--count is %d: want 0 or more", f.count)
	case f.timeout < 0:
		return exit.Usage("--timeout is %s: want 0 or more", f.timeout)
	case f.output.Value == "name" && (f.diff || f.stage):
		return exit.Usage("--diff and --stage have no place in -o name: leave them out")
	case f.output.Value != "" && f.output.Value != "wide" && f.diff:
		return exit.Usage("--diff is about the table: -o %s has old and new values without it", f.output.Value)
	}
	f.only = nil
	for _, text := range f.onlyTexts {
		place, err := jsonpath.ParsePath(text)
		if err != nil {
			return exit.Usage("--only: %w", err)
		}
		f.only = append(f.only, place)
	}
	if f.labels, err = labels.Parse(f.selector); err != nil {
		return exit.Usage("--selector %q: %w", f.selector, err)
	}
	if f.fields, err = fields.ParseSelector(f.fieldSelector); err != nil {
		return exit.Usage("--field-selector %q: %w", f.fieldSelector, err)
	}
	return nil
}

// initialMode is --initial as the reflector knows it.
func (f *Flags) initialMode() reflector.Initial {
	switch f.initial.Value {
	case reflector.WatchList.String():
		return reflector.WatchList
	case reflector.List.String():
		return reflector.List
	}
	return reflector.Auto
}

// snapshots is --snapshot, nil where it is not given. Secrets stay out of it.
func (f *Flags) snapshots() *snapshot.Directory {
	if f.snapshot == "" {
		return nil
	}
	return snapshot.In(f.snapshot, snapshot.Options{})
}
