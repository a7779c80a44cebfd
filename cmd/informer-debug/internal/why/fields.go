package why

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// differing lists the fields that the cache has otherwise than the server, where the contents
// of both are known.
func (d *description) differing() ([]diff.Change, error) {
	if d.cached == nil || d.served == nil || d.cached.Contents == nil {
		return nil, nil
	}
	var has map[string]any
	if err := json.Unmarshal(d.cached.Contents, &has); err != nil { // with integers as the server's are
		return nil, fmt.Errorf("contents of %s: %w", d.called, err)
	}
	is := runtime.DeepCopyJSON(d.served.Object)
	for _, member := range []string{"apiVersion", "kind"} { // which a Go type need not have
		if has[member] == nil {
			delete(is, member)
		}
	}
	unstructured.RemoveNestedField(is, "metadata", "annotations", corev1.LastAppliedConfigAnnotation) // a process does not show it
	return diff.Between(&unstructured.Unstructured{Object: bare(has)}, &unstructured.Unstructured{Object: bare(is)})
}

// bare takes away members that hold nothing, which Go types write and servers leave out.
func bare(tree map[string]any) map[string]any {
	for name, value := range tree {
		switch v := value.(type) {
		case nil:
			delete(tree, name)
		case map[string]any:
			if len(bare(v)) == 0 {
				delete(tree, name)
			}
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					bare(m)
				}
			}
		}
	}
	return tree
}

// readers writes how far behind handlers are, and what controllers have to do with the object.
func (d *description) readers(ctx context.Context, b *strings.Builder) {
	for _, h := range d.informer.Handlers {
		if h.Pending > 0 {
			fmt.Fprintf(b, "%s\n", terminal.OneLine(fmt.Sprintf("The handler %s (%s) is %s behind, with %d events to hear.", h.Name, h.Place, terminal.Duration(h.Behind), h.Pending)))
		}
	}
	if len(d.status.Controllers) == 0 {
		return
	}
	why, err := d.sight.Process.Why(ctx, d.informer.Reflector.Resource, "", d.key)
	if err != nil {
		fmt.Fprintf(b, "%s\n", terminal.OneLine("Controllers: "+err.Error()))
		return
	}
	b.WriteString("\n")
	for _, r := range why.Reasons {
		fmt.Fprintf(b, "%s\n", terminal.OneLine(r.Text))
	}
}

// timeline writes the last events of the object.
func (d *description) timeline(ctx context.Context, b *strings.Builder, last int) {
	if last == 0 {
		return
	}
	timeline, err := d.sight.Process.Timeline(ctx, d.informer.Reflector.Resource, d.key)
	if err != nil {
		fmt.Fprintf(b, "%s\n", terminal.OneLine("Events: "+err.Error()))
		return
	}
	entries := timeline.Entries[max(0, len(timeline.Entries)-last):]
	if len(entries) > 0 {
		b.WriteString("\n")
	}
	for n := range entries {
		attach.WriteEntry(b, &entries[n])
	}
}
