package get

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
)

// sortBy stably sorts objects by the value at a path. Objects without a value come first. It reports
// whether any object has a value.
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

// compareValues orders values: nil first, then booleans, numbers and quantities, strings, and trees. Times
// are strings, which happen to sort correctly.
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

// quantity parses strings such as 10Gi and 250m. It rejects exponents, which can take very long to
// parse.
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
