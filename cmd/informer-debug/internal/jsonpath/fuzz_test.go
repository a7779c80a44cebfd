package jsonpath

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/millrace-dev/millrace/test/hostile"
)

// Any template on any object ends soon, in bounded memory.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		`{range .items[*]}{.metadata.name}{"\t"}{end}`, `{..metadata['name', 'labels.x\.y']}`,
		`{.users[?(@.name=="e2e")][0:-1:2]}`, `{........}`, `{range ..}{range ..}{$..}{end}{end}`, `{.a[?(@.b<=-1.5e3)]}`,
	} {
		f.Add(text, []byte(sample))
	}
	// A budget of looks is 1<<20 for a small object, each of at most 16 bytes in a list that
	// grows, and one number for each value that a template prints.
	budget := hostile.Budget{Memory: 256 << 20, MemoryPerByte: 4 << 10}
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		var object any
		if json.Unmarshal(body, &object) != nil {
			return
		}
		budget.Within(t, len(text)+len(body), func() {
			if template, err := Parse(text); err == nil {
				_ = template.Execute(io.Discard, object) // any error will do
			}
			if path, err := ParsePath(text); err == nil {
				_, _ = path.Find(object)
			}
		})
	})
}
