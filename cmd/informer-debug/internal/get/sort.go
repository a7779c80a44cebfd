package get

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
)

// sortBy brings objects into the order of what they have at a place. Those that have nothing
// there come first, and what is equal stays as it is. It reports whether any has something.
func sortBy(place jsonpath.Path, all []item) (found bool) {
	type keyed struct {
		value any
		shown item
	}
	order := make([]keyed, len(all))
	for n, one := range all {
		values := place.Find(one.tree)
		if order[n].shown = one; len(values) > 0 {
			order[n].value, found = values[0], true
		}
	}
	slices.SortStableFunc(order, func(a, b keyed) int { return compareValues(a.value, b.value) })
	for n := range order {
		all[n] = order[n].shown
	}
	return found
}

// compareValues orders nothing, truths, numbers and quantities, texts, and trees, in this
// order. Times are texts in an order of their own.
func compareValues(a, b any) int {
	rank := func(v any) (int, float64, string) {
		switch v := v.(type) {
		case nil:
			return 0, 0, ""
		case bool:
			if v {
				return 1, 1, ""
			}
			return 1, 0, ""
		case int64:
			return 2, float64(v), ""
		case float64:
			return 2, v, ""
		case string:
			if n, ok := quantity(v); ok {
				return 2, n, v
			}
			return 3, 0, v
		}
		return 4, 0, jsonpath.Text(v)
	}
	x, m, s := rank(a)
	y, n, t := rank(b)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(m, n), strings.Compare(s, t))
}

// quantity reads texts such as 10Gi and 250m. Those with an exponent may take long, and are
// none.
func quantity(text string) (float64, bool) {
	if len(text) > 24 || text == "" || text[0] > '9' || strings.ContainsAny(text, "eE") {
		return 0, false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, false
	}
	return q.AsApproximateFloat64(), true
}
