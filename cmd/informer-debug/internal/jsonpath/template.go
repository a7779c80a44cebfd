package jsonpath

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Template is a text with places in it. It is safe for concurrent use.
type Template struct{ nodes []node }

// node is one part of a template.
type node struct {
	text string // where there is no path
	path *Path
	loop []node // for each value at the path; nil for the values themselves
}

const wantInBraces = `what stands in braces is not understood: want a place such as {.metadata.name}, a text such as {"\n"}, {range ...} or {end}`

// Parse reads a template.
func Parse(text string) (*Template, error) {
	p := parser{text: text}
	if len(text) > mostText {
		return nil, fmt.Errorf("jsonpath: the template has %d bytes: want at most %d", len(text), mostText)
	}
	nodes, err := p.nodes(false)
	if err != nil {
		return nil, p.about(err)
	}
	return &Template{nodes}, nil
}

// nodes reads until the end of the text, or of a loop.
func (p *parser) nodes(loop bool) (nodes []node, err error) {
	nodes = []node{}
	for {
		text, _, braced := strings.Cut(p.rest(), "{")
		if p.at += len(text); text != "" {
			nodes = append(nodes, node{text: text})
		}
		if !braced {
			if loop {
				return nil, p.fault("{end} is missing")
			}
			return nodes, nil
		}
		p.at++
		p.spaces()
		if loop && p.word("end") {
			return nodes, p.close()
		}
		var one node
		switch rest := p.rest(); {
		case p.word("end"):
			err = p.fault("no {range} is open before it")
		case p.word("range"):
			one, err = p.loop()
		case strings.HasPrefix(rest, "'"), strings.HasPrefix(rest, `"`):
			if one.text, err = p.quoted(); err == nil {
				err = p.close()
			}
		default:
			if one.path, err = p.place(); err == nil {
				err = p.close()
			}
		}
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, one)
	}
}

// word takes a word that nothing but a space or a brace follows.
func (p *parser) word(word string) bool {
	after, ok := strings.CutPrefix(p.rest(), word)
	if ok = ok && (after == "" || strings.IndexByte(" \t\n}", after[0]) >= 0); ok {
		p.at += len(word)
	}
	return ok
}

// close takes the closing brace.
func (p *parser) close() error {
	if p.spaces(); p.take("}") {
		return nil
	}
	if p.rest() == "" {
		return p.fault("the brace is not closed")
	}
	return p.fault(wantInBraces)
}

// place reads a place in braces, which begins with a dot, a bracket, $ or @.
func (p *parser) place() (*Path, error) {
	if rest := p.rest(); rest == "" || strings.IndexByte(".[$@", rest[0]) < 0 {
		return nil, p.fault(wantInBraces)
	}
	place, err := p.path(false)
	return &place, err
}

// loop reads what follows the word range, up to its end.
func (p *parser) loop() (one node, err error) {
	out, err := p.inside()
	if err != nil {
		return one, err
	}
	defer out()
	p.spaces()
	if one.path, err = p.place(); err != nil {
		return one, err
	}
	if err = p.close(); err != nil {
		return one, err
	}
	one.loop, err = p.nodes(true)
	return one, err
}

// Execute writes the template with the values of a tree in it: texts as they are, and
// everything else as JSON. Several values at a place are divided by a space.
func (t *Template) Execute(w io.Writer, tree any) error {
	e := execution{walk: walk{root: tree}, w: w}
	return e.nodes(t.nodes, tree)
}

type execution struct {
	walk
	w io.Writer
}

func (e *execution) nodes(nodes []node, at any) error {
	for n := range nodes {
		if err := e.node(&nodes[n], at); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) node(n *node, at any) error {
	if n.path == nil {
		return e.write(n.text)
	}
	values, err := e.find(n.path, at)
	if err != nil {
		return err
	}
	for i, v := range values {
		if n.loop != nil {
			err = e.nodes(n.loop, v)
		} else {
			err = e.value(v, i > 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// value writes one value, behind a space if need be.
func (e *execution) value(v any, more bool) error {
	if err := e.look(size(v)); err != nil {
		return err
	}
	text := Text(v)
	if more {
		text = " " + text
	}
	return e.write(text)
}

// write writes a text. What is long counts as much as values that are looked at.
func (e *execution) write(text string) error {
	if err := e.look(1 + len(text)/16); err != nil {
		return err
	}
	_, err := io.WriteString(e.w, text)
	return err
}

// Text is a value as a template writes it: a text as it is, anything else as JSON.
func Text(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
