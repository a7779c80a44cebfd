package output

import (
	"fmt"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
)

// Nothing is the text of a custom column without a value, as in kubectl.
const Nothing = "<none>"

// column is a custom column.
type column struct {
	Header string // its title
	path   jsonpath.Path
}

// parseColumns parses HEADER:PATH,HEADER:PATH. In a file, the first line contains the headers and the second
// one the paths.
func parseColumns(text string, ofFile bool) ([]column, error) {
	var columns []column
	add := func(header, path string) error {
		parsed, err := jsonpath.ParsePath(path)
		columns = append(columns, column{header, parsed})
		return err
	}
	if ofFile {
		headers, paths, _ := strings.Cut(strings.TrimSpace(text), "\n")
		all, places := strings.Fields(headers), strings.Fields(paths)
		if len(all) == 0 || len(all) != len(places) {
			return nil, fmt.Errorf("the file has %d headers in its first line but %d paths below: the numbers must match", len(all), len(places))
		}
		for n := range all {
			if err := add(all[n], places[n]); err != nil {
				return nil, err
			}
		}
		return columns, nil
	}
	for _, one := range outside(text, ',') {
		header, path, ok := strings.Cut(one, ":")
		if !ok || header == "" || path == "" {
			return nil, fmt.Errorf("%q: want HEADER:PATH, for example NAME:.metadata.name", one)
		}
		if err := add(header, path); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// outside splits text at a separator, except inside brackets and quotes.
func outside(text string, mark byte) (parts []string) {
	depth, begin := 0, 0
	quote := byte(0)
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case c == '\\':
			n++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == mark && depth == 0:
			parts = append(parts, text[begin:n])
			begin = n + 1
		}
	}
	return append(parts, text[begin:])
}

// Cell returns an object's values in this column, separated by commas.
func (c *column) Cell(tree any) string {
	found := c.path.Find(tree)
	if len(found) == 0 {
		return Nothing
	}
	texts := make([]string, len(found))
	for n, v := range found {
		if texts[n] = jsonpath.Text(v); v == nil {
			texts[n] = Nothing
		}
	}
	return strings.Join(texts, ",")
}
