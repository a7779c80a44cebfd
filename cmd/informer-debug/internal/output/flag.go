package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
)

// The output formats of get. The table format is the empty string.
const (
	Wide     = "wide"
	JSON     = "json"
	JSONL    = "jsonl"
	YAML     = "yaml"
	Name     = "name"
	JSONPath = "jsonpath"
	Columns  = "custom-columns"
	Template = "go-template"
)

// mostTemplate is the maximum size of a template file, in bytes.
const mostTemplate = 64 << 10

// Flag is the value of --output: a format with its template, if any.
type Flag struct {
	Form     string // one of the constants above; empty for the table
	text     string // of the template
	places   *jsonpath.Template
	template *template.Template
	Columns  []column // for custom-columns
}

// String returns the flag as given.
func (o *Flag) String() string {
	if o.text == "" {
		return o.Form
	}
	return o.Form + "=" + o.text
}

// Type returns the formats, for the help text.
func (o *Flag) Type() string {
	return "FORMAT"
}

// Set parses a format and its template.
func (o *Flag) Set(value string) (err error) {
	form, text, given := strings.Cut(value, "=")
	*o = Flag{}
	file, ofFile := strings.CutSuffix(form, "-file")
	switch {
	case !given && slices.Contains([]string{Wide, JSON, JSONL, YAML, Name}, form):
		o.Form = form
		return nil
	case !given && form == "table":
		return nil
	case !slices.Contains([]string{JSONPath, Columns, Template}, file):
		return errors.New("want one of table, wide, json, jsonl, yaml, name, jsonpath=TEMPLATE, custom-columns=HEADER:PATH,... or go-template=TEMPLATE")
	case text == "":
		return fmt.Errorf("the template is missing: use, for example, %s", map[string]string{
			JSONPath: "jsonpath='{.metadata.name}'", Columns: "custom-columns=NAME:.metadata.name,PHASE:.status.phase",
			Template: "go-template='{{.metadata.name}}'",
		}[file])
	}
	if o.Form, o.text = file, text; ofFile {
		if text, err = readTemplate(text); err != nil {
			return err
		}
	}
	switch file {
	case JSONPath:
		o.places, err = jsonpath.Parse(text)
	case Template:
		o.template, err = template.New("output").Parse(text)
	case Columns:
		o.Columns, err = parseColumns(text, ofFile)
	}
	return err
}

// readTemplate reads a template file.
func readTemplate(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostTemplate+1))
	if err == nil && len(text) > mostTemplate {
		err = fmt.Errorf("%s: the template exceeds %d bytes", name, mostTemplate)
	}
	return string(text), err
}

// OfTable reports whether the format is a table of heads.
func (o *Flag) OfTable() bool { return o.Form == "" || o.Form == Wide }

// NeedsObjects reports whether the format needs more than heads.
func (o *Flag) NeedsObjects() bool { return !o.OfTable() && o.Form != Name }
