package jsonpath

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// ErrTooMuch is the error of a template that looks at an object too often, or writes too much.
var ErrTooMuch = errors.New("it takes too long on this object: use fewer .. and loops in each other")

const (
	freeLooks = 1 << 20 // values that may be looked at in any object
	mostLooks = 16      // at each value of larger ones
)

// walk is one evaluation. It counts the values that it looks at.
type walk struct {
	root  any
	looks int
	most  int // 0 before it is known
}

// look counts so many values.
func (w *walk) look(n int) error {
	w.looks += n
	if w.looks <= freeLooks {
		return nil
	}
	if w.most == 0 {
		w.most = freeLooks + mostLooks*size(w.root)
	}
	if w.looks > w.most {
		return ErrTooMuch
	}
	return nil
}

// size is how many values there are.
func size(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			n += size(child)
		}
	case []any:
		for _, child := range v {
			n += size(child)
		}
	}
	return n
}

// find returns the values at a place, seen from a value.
func (w *walk) find(p *Path, from any) ([]any, error) {
	if p.whole {
		from = w.root
	}
	values := []any{from}
	for n := range p.steps {
		var next []any
		for _, v := range values {
			found, err := w.from(&p.steps[n], v)
			if err != nil {
				return nil, err
			}
			next = append(next, found...)
		}
		values = next
	}
	return values, w.look(1)
}

// from returns what a step leads to.
func (w *walk) from(s *step, v any) (found []any, err error) {
	switch {
	case s.union != nil:
		for n := range s.union {
			some, err := w.from(&s.union[n], v)
			if len(some) == 0 && err == nil && s.union[n].path != nil {
				some, err = w.find(s.union[n].path, v)
			}
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
		return found, w.look(1)
	case s.descend:
		err := w.descend(v, &found)
		return found, err
	}
	switch v := v.(type) {
	case map[string]any:
		if s.all {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				found = append(found, v[name])
			}
		} else if s.name != nil {
			if child, ok := v[*s.name]; ok {
				found = []any{child}
			}
		}
	case []any:
		if found, err = w.items(s, v); err != nil {
			return nil, err
		}
	}
	return found, w.look(1 + len(found))
}

// items returns what a step leads to in a list.
func (w *walk) items(s *step, list []any) (found []any, err error) {
	switch {
	case s.all:
		return list, nil
	case s.item != nil:
		n := *s.item
		if n < 0 {
			n += len(list)
		}
		if n >= 0 && n < len(list) {
			return list[n : n+1 : n+1], nil
		}
	case s.slice != nil:
		start, end, step := s.slice.of(len(list))
		for n := start; n < end; n += step {
			found = append(found, list[n])
		}
	case s.where != nil:
		for _, item := range list {
			ok, err := w.holds(s.where, item)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, item)
			}
		}
	}
	return found, nil
}

// descend appends a value and all below, parents first.
func (w *walk) descend(v any, found *[]any) error {
	if err := w.look(1); err != nil {
		return err
	}
	*found = append(*found, v)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := w.descend(v[name], found); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := w.descend(item, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds says whether it is so of an item. Where there is no value there is nothing to
// compare, and it is not so.
func (w *walk) holds(f *filter, item any) (bool, error) {
	left, err := w.values(&f.left, item)
	if err != nil || f.operator == "" {
		return len(left) > 0, err
	}
	right, err := w.values(&f.right, item)
	if err != nil {
		return false, err
	}
	for _, a := range left {
		for _, b := range right {
			if err := w.look(1); err != nil {
				return false, err
			}
			if compare(a, f.operator, b) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (w *walk) values(o *operand, item any) ([]any, error) {
	if o.path == nil {
		return []any{o.value}, nil
	}
	return w.find(o.path, item)
}

// compare compares plain values. Those of different kinds are different, and none is less.
func compare(a any, operator string, b any) bool {
	order, equal := 0, false
	switch x := plain(a).(type) {
	case string:
		y, ok := plain(b).(string)
		if order = cmp.Compare(x, y); !ok {
			return operator == "!="
		}
		equal = order == 0
	case float64:
		y, ok := plain(b).(float64)
		if order = cmp.Compare(x, y); !ok {
			return operator == "!="
		}
		equal = order == 0
	case bool, nil:
		equal = x == plain(b)
		return operator == "==" && equal || operator == "!=" && !equal
	default:
		return operator == "!="
	}
	switch operator {
	case "==":
		return equal
	case "!=":
		return !equal
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// plain makes numbers of all kinds comparable, and nothing of trees.
func plain(v any) any {
	switch v := v.(type) {
	case nil, string, bool, float64:
		return v
	case int64:
		return float64(v)
	case int:
		return float64(v)
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			return string(v)
		}
		return n
	}
	return struct{}{}
}
