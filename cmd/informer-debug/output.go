package main

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

// The forms in which get prints, beside the table, whose word is empty.
const (
	asWide     = "wide"
	asJSON     = "json"
	asJSONL    = "jsonl"
	asYAML     = "yaml"
	asName     = "name"
	asJSONPath = "jsonpath"
	asColumns  = "custom-columns"
	asTemplate = "go-template"
)

// mostTemplate is how much of a file with a template is read.
const mostTemplate = 64 << 10

// output is the flag --output: a form, and the template of those that want one.
type output struct {
	form     string
	text     string // of the template
	places   *jsonpath.Template
	template *template.Template
	columns  []column
}

// String is the flag as it was given.
func (o *output) String() string {
	if o.text == "" {
		return o.form
	}
	return o.form + "=" + o.text
}

// Type names the forms in the help text.
func (o *output) Type() string {
	return "table|wide|json|jsonl|yaml|name|jsonpath=|custom-columns=|go-template="
}

// Set takes a form, and reads its template.
func (o *output) Set(value string) (err error) {
	form, text, given := strings.Cut(value, "=")
	*o = output{}
	file, ofFile := strings.CutSuffix(form, "-file")
	switch {
	case !given && slices.Contains([]string{asWide, asJSON, asJSONL, asYAML, asName}, form):
		o.form = form
		return nil
	case !given && form == "table":
		return nil
	case !slices.Contains([]string{asJSONPath, asColumns, asTemplate}, file):
		return errors.New("want one of table, wide, json, jsonl, yaml, name, jsonpath=TEMPLATE, custom-columns=HEADER:PATH,... or go-template=TEMPLATE")
	case text == "":
		return fmt.Errorf("the template is missing: want for example %s", map[string]string{
			asJSONPath: "jsonpath='{.metadata.name}'", asColumns: "custom-columns=NAME:.metadata.name,PHASE:.status.phase",
			asTemplate: "go-template='{{.metadata.name}}'",
		}[file])
	}
	if o.form, o.text = file, text; ofFile {
		if text, err = readTemplate(text); err != nil {
			return err
		}
	}
	switch file {
	case asJSONPath:
		o.places, err = jsonpath.Parse(text)
	case asTemplate:
		o.template, err = template.New("output").Parse(text)
	case asColumns:
		o.columns, err = parseColumns(text, ofFile)
	}
	return err
}

// readTemplate reads a file.
func readTemplate(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostTemplate+1))
	if err == nil && len(text) > mostTemplate {
		err = fmt.Errorf("%s: want a template of at most %d bytes", name, mostTemplate)
	}
	return string(text), err
}

// ofTable reports whether the form is a table that heads of objects are enough for.
func (o *output) ofTable() bool { return o.form == "" || o.form == asWide }

// needsObjects reports whether the form shows more than heads.
func (o *output) needsObjects() bool { return !o.ofTable() && o.form != asName }
