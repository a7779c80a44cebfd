// Package jsonpath reads places in objects, and texts with such places in them, by the parser of
// kubectl (https://kubernetes.io/docs/reference/kubectl/jsonpath/).
//
// Objects are trees as JSON decodes into any, numbers of any kind. They are not changed.
package jsonpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	kubectl "k8s.io/client-go/util/jsonpath"
)

// Template is a text with places in braces. It is safe for concurrent use.
type Template struct{ text string }

// Parse reads a template.
func Parse(text string) (*Template, error) {
	if _, err := kubectl.Parse("", text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	}
	return &Template{text}, nil
}

// Execute writes the template with the values of a tree.
func (t *Template) Execute(w io.Writer, tree any) error {
	return t.parsed().Execute(w, tree)
}

// parsed is made for each use: a search changes it.
func (t *Template) parsed() *kubectl.JSONPath {
	p := kubectl.New("jsonpath").AllowMissingKeys(true)
	if err := p.Parse(t.text); err != nil {
		panic(err) // Parse has read it before
	}
	return p
}

// Path is a place in an object, or several. It is safe for concurrent use.
type Path struct {
	text     string
	template *Template
}

// ParsePath reads a place, with or without braces around it, and with or without the first
// dot, as --sort-by and custom columns have it.
func ParsePath(text string) (Path, error) {
	place := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(place, "{"); ok {
		if place, ok = strings.CutSuffix(inner, "}"); !ok {
			return Path{}, fmt.Errorf("jsonpath %q: the brace is not closed", text)
		}
		place = strings.TrimSpace(place)
	}
	if strings.ContainsAny(place, "{}") || strings.Trim(place, ".") == "" || place[0] == '"' {
		return Path{}, fmt.Errorf("jsonpath %q: want one place, for example {.status.phase}", text)
	}
	if !strings.ContainsAny(place[:1], ".[$@") {
		place = "." + place
	}
	t, err := Parse("{" + place + "}")
	if err != nil {
		return Path{}, errors.New(strings.Replace(err.Error(), "{"+place+"}", text, 1))
	}
	return Path{text, t}, nil
}

// String is the place as it was read.
func (p Path) String() string { return p.text }

// Find returns the values at the place, none if there is no such place.
func (p Path) Find(tree any) (values []any) {
	found, err := p.template.parsed().FindResults(tree)
	if err != nil { // the object has something else on the way to there
		return nil
	}
	for _, some := range found {
		for _, v := range some {
			if v.IsValid() {
				values = append(values, v.Interface())
			}
		}
	}
	return values
}

// Text is a value as a template prints it.
func Text(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	var b strings.Builder
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
