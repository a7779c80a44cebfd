// Package jsonpath evaluates JSONPath templates and paths with kubectl's parser
// (https://kubernetes.io/docs/reference/kubectl/jsonpath/).
//
// Objects are trees decoded from JSON into any, with numbers of any type. They are not modified.
package jsonpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	kubectl "k8s.io/client-go/util/jsonpath"
)

// Template is text with paths in braces. It is safe for concurrent use.
type Template struct{ text string }

// Parse parses a template. It returns an error if the syntax is invalid.
func Parse(text string) (*Template, error) {
	if _, err := kubectl.Parse("", text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	}
	return &Template{text}, nil
}

// Execute writes the template, filled in with values from a tree.
func (t *Template) Execute(w io.Writer, tree any) error {
	return t.parsed().Execute(w, tree)
}

// parsed returns a fresh parser, because evaluation modifies it.
func (t *Template) parsed() *kubectl.JSONPath {
	p := kubectl.New("jsonpath").AllowMissingKeys(true)
	if err := p.Parse(t.text); err != nil {
		panic(err) // already accepted by Parse
	}
	return p
}

// Path selects one or more values in an object. It is safe for concurrent use.
type Path struct {
	text     string
	template *Template
}

// ParsePath parses a path with or without enclosing braces and leading dot, as in --sort-by and custom columns.
func ParsePath(text string) (Path, error) {
	place := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(place, "{"); ok {
		if place, ok = strings.CutSuffix(inner, "}"); !ok {
			return Path{}, fmt.Errorf("jsonpath %q: unclosed brace", text)
		}
		place = strings.TrimSpace(place)
	}
	if strings.ContainsAny(place, "{}") || strings.Trim(place, ".") == "" || place[0] == '"' {
		return Path{}, fmt.Errorf("jsonpath %q: want a single path, for example {.status.phase}", text)
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

// String returns the path as given.
func (p Path) String() string { return p.text }

// Find returns the values at the path. The result is empty if the path does not exist.
func (p Path) Find(tree any) (values []any) {
	found, err := p.template.parsed().FindResults(tree)
	if err != nil { // a value along the path has a different type
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

// Text formats a value as in a template.
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
