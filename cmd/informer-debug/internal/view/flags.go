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

// Flags holds the flags that select the objects to watch and the output format.
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

	labels labels.Selector // parsed selector, set by Check
	fields fields.Selector // parsed fieldSelector, set by Check
	only   []jsonpath.Path // parsed onlyTexts, set by Check
}

// Add registers the flags with a command.
func (f *Flags) Add(cmd *cobra.Command) {
	f.initial = output.Choice{Value: reflector.Auto.String(), Words: []string{
		reflector.Auto.String(), reflector.WatchList.String(), reflector.List.String()}}
	f.output = output.Choice{Words: []string{"wide", "json", "jsonl", "name"}}

	flags := cmd.Flags()
	flags.StringVarP(&f.Namespace, "namespace", "n", "", "namespace to watch")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "watch all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "", "label selector, such as app=web,tier!=db")
	flags.StringVar(&f.fieldSelector, "field-selector", "", "field selector, such as metadata.name=web-1")
	flags.BoolVar(&f.metadataOnly, "metadata-only", false, "request only the objects' metadata")
	flags.StringVar(&f.snapshot, "snapshot", "", "directory for saving the objects, so that the next call need not list them")
	flags.Var(&f.initial, "initial", "how to read the initial state: streamed if the server can, streamed, or listed")
	f.output.Add(cmd, "output format (default a table)")
	flags.BoolVar(&f.diff, "diff", false, "after each update, print each changed field with its old and new value")
	flags.BoolVar(&f.stage, "stage", false, "show when a change was received, decoded, queued, applied and delivered, instead of the latencies")
	flags.StringArrayVar(&f.onlyTexts, "only", nil, "show only changes of this field, such as status.phase or '{.spec.containers[*].image}'; may be repeated")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "print the table without a header")
	flags.BoolVar(&f.watchOnly, "watch-only", false, "do not show the initial objects")
	flags.BoolVar(&f.Verbose, "verbose", false, "show each request on stderr")
	flags.IntVarP(&f.count, "count", "c", 0, "stop after this many changes, including initial objects; 0 means never")
	flags.DurationVar(&f.timeout, "timeout", 0, "stop after this duration, with exit code 124; 0 means never")
	for name, words := range map[string][]string{"output": f.output.Words, "initial": f.initial.Words} {
		// This fails only if the flag does not exist.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// Check validates the flags and parses the selectors.
func (f *Flags) Check() (err error) {
	switch {
	case f.allNamespaces && f.Namespace != "":
		return exit.Usage("-n %s and -A cannot be used together", f.Namespace)
	case f.Namespace != "" && len(validation.IsDNS1123Label(f.Namespace)) > 0:
		return exit.Usage("--namespace %q: want the name of one namespace, or -A for all", f.Namespace)
	case f.count < 0:
		return exit.Usage("--count must not be negative, got %d", f.count)
	case f.timeout < 0:
		return exit.Usage("--timeout must not be negative, got %s", f.timeout)
	case f.output.Value == "name" && (f.diff || f.stage):
		return exit.Usage("--diff and --stage cannot be used with -o name")
	case f.output.Value != "" && f.output.Value != "wide" && f.diff:
		return exit.Usage("--diff only applies to tables: -o %s includes old and new values without it", f.output.Value)
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

// initialMode converts --initial to the reflector's type.
func (f *Flags) initialMode() reflector.Initial {
	switch f.initial.Value {
	case reflector.WatchList.String():
		return reflector.WatchList
	case reflector.List.String():
		return reflector.List
	}
	return reflector.Auto
}

// snapshots returns the directory given by --snapshot, or nil if there is none. Secrets are never stored
// there.
func (f *Flags) snapshots() *snapshot.Directory {
	if f.snapshot == "" {
		return nil
	}
	return snapshot.In(f.snapshot, snapshot.Options{})
}
