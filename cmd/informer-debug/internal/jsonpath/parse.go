package jsonpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	mostText  = 64 << 10 // bytes of a template
	mostDepth = 32       // loops and filters inside each other
)

// parser reads a text from its beginning to its end.
type parser struct {
	text  string
	at    int
	depth int
}

func (p *parser) rest() string { return p.text[p.at:] }

func (p *parser) take(prefix string) bool {
	ok := strings.HasPrefix(p.rest(), prefix)
	if ok {
		p.at += len(prefix)
	}
	return ok
}

func (p *parser) spaces() { p.at = len(p.text) - len(strings.TrimLeft(p.rest(), " \t\n")) }

// fault says what is wrong where the parser is.
func (p *parser) fault(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if rest := p.rest(); rest != "" {
		text += " at " + strconv.Quote(rest[:min(len(rest), 40)])
	}
	return errors.New(text)
}

// about puts the text before an error.
func (p *parser) about(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("jsonpath %q: %w", p.text[:min(len(p.text), 200)], err)
}

// inside counts how deep things are in each other, until out.
func (p *parser) inside() (out func(), err error) {
	if p.depth++; p.depth > mostDepth {
		return nil, fmt.Errorf("loops and filters are more than %d deep", mostDepth)
	}
	return func() { p.depth-- }, nil
}

// path reads a place. A relaxed one may begin with a name.
func (p *parser) path(relaxed bool) (Path, error) {
	if len(p.text) > mostText {
		return Path{}, fmt.Errorf("it has more than %d bytes", mostText)
	}
	p.spaces()
	begin := p.at
	var place Path
	if place.whole = p.take("$"); !place.whole {
		p.take("@")
	}
	for first := true; ; first = false {
		var s step
		var err error
		switch {
		case p.take(".."):
			place.steps = append(place.steps, step{descend: true})
			if s, err = p.name(); s.name == nil && !s.all && err == nil {
				continue // a bracket or the end follows
			}
		case p.take("."):
			if strings.HasPrefix(p.rest(), "[") {
				continue
			}
			if s, err = p.name(); s.name == nil && !s.all && err == nil {
				if first { // {.} is the value itself
					place.text = p.text[begin:p.at]
					p.spaces()
					return place, nil
				}
				err = p.fault("a name is missing")
			}
		case p.take("["):
			s, err = p.bracket()
		case first && relaxed && !place.whole && p.at == begin:
			if s, err = p.name(); s.name == nil && !s.all && err == nil {
				return place, nil
			}
		default:
			place.text = p.text[begin:p.at]
			p.spaces()
			return place, nil
		}
		if err != nil {
			return place, err
		}
		place.steps = append(place.steps, s)
	}
}

// name reads a name or *; nothing where there is none. A backslash takes away the meaning
// of what follows.
func (p *parser) name() (step, error) {
	if p.take("*") {
		return step{all: true}, nil
	}
	var b strings.Builder
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		if strings.IndexByte(".[]{}()?@$'\"=!<>,:|&~ \t\n", c) >= 0 {
			break
		}
		if c == '\\' {
			if p.at++; p.at == len(p.text) {
				return step{}, p.fault("nothing follows the backslash")
			}
			c = p.text[p.at]
		}
		b.WriteByte(c)
	}
	if b.Len() == 0 {
		return step{}, nil
	}
	name := b.String()
	return step{name: &name}, nil
}

// bracket reads what follows an opening bracket.
func (p *parser) bracket() (step, error) {
	p.spaces()
	if p.take("?(") {
		return p.filter()
	}
	var union []step
	for {
		s, err := p.subscript()
		if err != nil {
			return s, err
		}
		union = append(union, s)
		p.spaces()
		if p.take("]") {
			break
		}
		if !p.take(",") {
			return s, p.fault("the bracket is not closed, or holds what is not understood: want a number, a slice, a name in quotes, * or ?(...)")
		}
	}
	if len(union) == 1 {
		return union[0], nil
	}
	for n := range union {
		if name := union[n].name; name != nil && strings.Contains(*name, ".") {
			place := &Path{}
			for part := range strings.SplitSeq(*name, ".") {
				place.steps = append(place.steps, step{name: &part})
			}
			union[n].path = place
		}
	}
	return step{union: union}, nil
}

// subscript reads one thing in brackets.
func (p *parser) subscript() (step, error) {
	p.spaces()
	switch rest := p.rest(); {
	case p.take("*"):
		return step{all: true}, nil
	case strings.HasPrefix(rest, "'"), strings.HasPrefix(rest, `"`):
		name, err := p.quoted()
		return step{name: &name}, err
	}
	var parts [3]*int
	n := 0
	for {
		if parts[n] = p.number(); n == 2 || !p.take(":") {
			break
		}
		n++
	}
	switch s := parts[2]; {
	case n == 0 && parts[0] == nil:
		return step{}, p.fault("want a number, a slice, a name in quotes, * or ?(...)")
	case n == 0:
		return step{item: parts[0]}, nil
	case s != nil && *s < 1:
		return step{}, p.fault("the step of a slice is %d: want 1 or more", *s)
	}
	return step{slice: &slice{parts[0], parts[1], parts[2]}}, nil
}

// number reads digits with a sign; nil where there are none.
func (p *parser) number() *int {
	p.spaces()
	end := p.at
	for end < len(p.text) && (p.text[end] >= '0' && p.text[end] <= '9' || p.text[end] == '-' && end == p.at) {
		end++
	}
	n, err := strconv.Atoi(p.text[p.at:end])
	if err != nil {
		return nil
	}
	p.at = end
	p.spaces()
	return &n
}

// quoted reads a text in quotes of either kind.
func (p *parser) quoted() (string, error) {
	quote := p.text[p.at]
	var b strings.Builder
	for n := p.at + 1; n < len(p.text); n++ {
		c := p.text[n]
		if c == quote {
			p.at = n + 1
			return b.String(), nil
		}
		if c == '\\' && n+1 < len(p.text) {
			n++
			if c = p.text[n]; strings.IndexByte("ntr", c) >= 0 {
				c = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r'}[c]
			}
		}
		b.WriteByte(c)
	}
	return "", p.fault("the quote is not closed")
}

// filter reads what follows ?(.
func (p *parser) filter() (step, error) {
	out, err := p.inside()
	if err != nil {
		return step{}, err
	}
	defer out()
	var f filter
	if f.left, err = p.operand(); err != nil {
		return step{}, err
	}
	for _, operator := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.take(operator) {
			f.operator = operator
			break
		}
	}
	if f.operator != "" {
		if f.right, err = p.operand(); err != nil {
			return step{}, err
		}
	}
	if !p.take(")") {
		return step{}, p.fault(`the filter is not understood: want for example [?(@.type=="Ready")], without regular expressions, and, or`)
	}
	if p.spaces(); !p.take("]") {
		return step{}, p.fault("the bracket is not closed")
	}
	return step{where: &f}, nil
}

// operand reads one side of a comparison.
func (p *parser) operand() (o operand, err error) {
	p.spaces()
	defer p.spaces()
	rest := p.rest()
	switch {
	case rest == "":
		return o, p.fault("the filter ends too soon")
	case rest[0] == '\'' || rest[0] == '"':
		o.value, err = p.quoted()
		return o, err
	case strings.IndexByte("@$.[", rest[0]) >= 0:
		place, err := p.path(false)
		return operand{path: &place}, err
	}
	end := strings.IndexAny(rest, ") =!<>")
	if end < 0 {
		end = len(rest)
	}
	word := rest[:end]
	switch n := json.Number(word); {
	case word == "true" || word == "false":
		o.value = word == "true"
	case word == "null":
	default:
		if o.value, err = n.Float64(); err != nil {
			return o, p.fault("want a place such as @.type, a number, true, false, or a text in quotes")
		}
	}
	p.at += end
	return o, nil
}
