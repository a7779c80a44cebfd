package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/internal/printable"
)

// Document prints trees in one of the formats that need whole objects. Like kubectl, it prints several
// objects as a List, except that jsonl prints one object per line.
func (o *Flag) Document(w io.Writer, terminal bool, trees []map[string]any, single bool) error {
	if o.Form == JSONL {
		for _, tree := range trees {
			if err := writeJSON(w, tree, ""); err != nil {
				return err
			}
		}
		return nil
	}
	var what any
	if single && len(trees) == 1 {
		what = trees[0]
	} else {
		items := make([]any, len(trees))
		for n := range trees {
			items[n] = trees[n]
		}
		what = map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items}
	}
	if terminal { // values are not escaped for a pipe
		w = printable.Writer{To: w}
	}
	switch o.Form {
	case YAML:
		return WriteYAML(w, what)
	case JSONPath:
		return o.fill(w, func(w io.Writer) error { return o.places.Execute(w, what) })
	case Template:
		return o.fill(w, func(w io.Writer) error { return o.template.Execute(w, what) })
	}
	return writeJSON(w, what, "    ")
}

// fill prints a template's complete output. If it returns an error, it has printed nothing.
func (o *Flag) fill(w io.Writer, execute func(io.Writer) error) error {
	var b bytes.Buffer
	if err := execute(&limitedWriter{to: &b, left: mostOutput}); err != nil {
		return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("-o %s: %w", o.Form, err)}
	}
	_, err := b.WriteTo(w)
	return err
}

// mostOutput is the maximum size of a template's output, in bytes.
const mostOutput = 256 << 20

// limitedWriter is a writer that fails after left bytes.
type limitedWriter struct {
	to   io.Writer
	left int
}

// Write implements io.Writer.
func (l *limitedWriter) Write(text []byte) (int, error) {
	if l.left -= len(text); l.left < 0 {
		return 0, fmt.Errorf("its output exceeds %d MiB", mostOutput>>20)
	}
	return l.to.Write(text)
}

// writeJSON writes one value, on a single line if indent is empty.
func writeJSON(w io.Writer, what any, indent string) error {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	to.SetIndent("", indent)
	if err := to.Encode(what); err != nil {
		return err
	}
	_, err := w.Write(printable.JSON(b.Bytes()))
	return err
}

// WriteYAML writes one document. It escapes terminal control characters.
func WriteYAML(w io.Writer, what any) error {
	var b bytes.Buffer
	to := yaml.NewEncoder(&b)
	to.SetIndent(2)
	to.CompactSeqIndent()
	if err := to.Encode(yamlNode(what)); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	text := b.String()
	if strings.ContainsFunc(text, turning) { // such strings are double-quoted; see yamlNode
		var escaped strings.Builder
		for _, r := range text {
			if turning(r) {
				fmt.Fprintf(&escaped, `\u%04x`, r)
			} else {
				escaped.WriteRune(r)
			}
		}
		text = escaped.String()
	}
	_, err := io.WriteString(w, text)
	return err
}

// turning reports whether r changes the text direction. YAML considers such characters printable.
func turning(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// yaml11 contains the strings that YAML 1.1, which the API server and kubectl read, does not take for strings,
// while the encoder writes YAML 1.2.
var yaml11 = map[string]bool{"yes": true, "no": true, "on": true, "off": true, "y": true, "n": true, "<<": true}

// yamlNode converts a tree for the YAML encoder.
func yamlNode(v any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
	}
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, yamlNode(name), yamlNode(v[name]))
		}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range v {
			n.Content = append(n.Content, yamlNode(item))
		}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case string:
		n := scalar("!!str", v)
		if yaml11[strings.ToLower(v)] || strings.ContainsFunc(v, func(r rune) bool { return printable.Control(r) && r != '\n' }) {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	case nil:
		return scalar("!!null", "null")
	case bool:
		return scalar("!!bool", fmt.Sprint(v))
	case float64:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(fmt.Sprint(v))
		}
		return scalar("!!float", string(text))
	}
	return scalar("!!int", fmt.Sprint(v))
}
