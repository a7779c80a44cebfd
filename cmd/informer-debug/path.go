package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// path is a place in an object, in the part of kubectl's JSONPath that names places:
// .spec.replicas, .spec.containers[0].image, .status.conditions[?(@.type=="Ready")].status,
// .items[*], and .metadata.labels.app\.kubernetes\.io/name or ['a.b'] for names with dots.
type path []step

// step leads from values to values.
type step struct {
	name   string // of a member, unless one of the others is set
	item   bool   // the item at index, from the end where it is negative
	index  int
	all    bool   // all items or members
	where  path   // items of which the value there is text; nil for others
	equals string // that text
}

// parsePath reads a path, with or without the braces around it.
func parsePath(text string) (path, error) {
	rest := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		if rest, ok = strings.CutSuffix(inner, "}"); !ok {
			return nil, fmt.Errorf("jsonpath %q: the brace is not closed", text)
		}
	}
	var p path
	for rest = strings.TrimPrefix(rest, "$"); rest != ""; {
		var s step
		var err error
		if inside, ok := strings.CutPrefix(rest, "["); ok {
			s, rest, err = parseBracket(inside)
		} else {
			s, rest, err = parseName(rest)
		}
		if err != nil {
			return nil, fmt.Errorf("jsonpath %q: %w", text, err)
		}
		p = append(p, s)
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("jsonpath %q names nothing: want for example {.status.phase}", text)
	}
	return p, nil
}

// parseName reads .name; a backslash takes away the meaning of what follows.
func parseName(text string) (s step, rest string, err error) {
	if text = strings.TrimPrefix(text, "."); text == "*" || strings.HasPrefix(text, "*.") || strings.HasPrefix(text, "*[") {
		return step{all: true}, text[1:], nil
	}
	var b strings.Builder
	n := 0
	for ; n < len(text) && text[n] != '.' && text[n] != '['; n++ {
		if strings.ContainsRune(" {}()?@'\"", rune(text[n])) {
			return s, "", fmt.Errorf("%q is not understood: only places are, such as .a.b[0], ['a.b'], [*] and [?(@.a==\"b\")]", text[n:])
		}
		if text[n] == '\\' && n+1 < len(text) {
			n++
		}
		b.WriteByte(text[n])
	}
	if b.Len() == 0 {
		return s, "", fmt.Errorf("a name is missing before %q", text)
	}
	return step{name: b.String()}, text[n:], nil
}

// parseBracket reads what follows an opening bracket.
func parseBracket(text string) (s step, rest string, err error) {
	if filter, ok := strings.CutPrefix(text, "?(@"); ok {
		left, right, ok := strings.Cut(filter, "==")
		value, rest, closed := strings.Cut(right, ")]")
		if !ok || !closed {
			return s, "", fmt.Errorf("[?(@%s is not understood: want [?(@.a==\"b\")]", filter)
		}
		where, err := parsePath(strings.TrimSpace(left))
		return step{where: where, equals: unquoted(strings.TrimSpace(value))}, rest, err
	}
	inside, rest, ok := strings.Cut(text, "]")
	if !ok {
		return s, "", fmt.Errorf("the bracket before %q is not closed", text)
	}
	if inside == "*" {
		return step{all: true}, rest, nil
	}
	if name := unquoted(inside); name != inside {
		return step{name: name}, rest, nil
	}
	if s.index, err = strconv.Atoi(inside); err != nil {
		return s, "", fmt.Errorf("[%s] is not understood: want a number, a name in quotes, * or ?(...)", inside)
	}
	s.item = true
	return s, rest, nil
}

func unquoted(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// find returns the values at the path, none where there is no such place.
func (p path) find(tree any) []any {
	values := []any{tree}
	for _, s := range p {
		var next []any
		for _, v := range values {
			next = append(next, s.from(v)...)
		}
		values = next
	}
	return values
}

func (s *step) from(v any) []any {
	switch v := v.(type) {
	case map[string]any:
		switch child, ok := v[s.name]; {
		case s.all:
			return sortedValues(v)
		case ok && !s.item && s.where == nil:
			return []any{child}
		}
	case []any:
		switch {
		case s.all:
			return v
		case s.where != nil:
			return slices.DeleteFunc(slices.Clone(v), func(item any) bool {
				return !slices.ContainsFunc(s.where.find(item), func(found any) bool { return plain(found) == s.equals })
			})
		case s.item && s.index < 0 && -s.index <= len(v):
			return []any{v[len(v)+s.index]}
		case s.item && s.index >= 0 && s.index < len(v):
			return []any{v[s.index]}
		}
	}
	return nil
}
