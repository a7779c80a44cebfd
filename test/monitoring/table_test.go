package monitoring

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rows returns the rows of tables in docs/metrics.md that begin with a metric, by its name, without
// the first column.
func rows(t *testing.T, columns int) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "metrics.md"))
	require.NoError(t, err)
	row, found := regexp.MustCompile("^\\| `([a-z_]+)` \\| (.*) \\|$"), map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil {
			continue
		}
		rest := strings.Split(cells[2], " | ")
		if len(rest) == columns {
			require.NotContains(t, found, cells[1], "twice")
			found[cells[1]] = rest
		}
	}
	require.NotEmpty(t, found)
	return found
}

// common reports whether client_golang itself exports the metric.
func common(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_")
}

// docs/metrics.md has a row for each metric of a program, with its type and labels. The row says
// whether controller-runtime has a metric of the same name, type, labels and buckets.
func TestThePageShowsTheMetrics(t *testing.T) {
	millrace, controllerRuntime := both(t)
	table := rows(t, 4)
	for _, name := range slices.Sorted(maps.Keys(millrace)) {
		if common(name) {
			continue
		}
		s, row := millrace.shape(name), table[name]
		if row == nil {
			t.Errorf("no row for %s: %s, %s", name, s.Type, s.Labels)
			continue
		}
		delete(table, name)
		require.Equal(t, []string{s.Type, s.Labels}, row[:2], name)
		switch other, there := controllerRuntime[name]; {
		case !there:
			require.Equal(t, "—", row[3], name)
		case controllerRuntime.shape(name) == s:
			require.Equal(t, "same", row[3], "%s: %s", name, other.GetType())
		default:
			require.Contains(t, row[3], "differs", "%s: %v, there %v", name, s, controllerRuntime.shape(name))
		}
	}
	require.Empty(t, table, "rows of what no program exports")
}

// A row of two columns names a metric of controller-runtime that is missing here, and the reason.
func TestThePageListsMissingMetrics(t *testing.T) {
	millrace, controllerRuntime := both(t)
	table := rows(t, 1)
	missing := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(controllerRuntime)), registered()) {
		if millrace[name] == nil && !common(name) {
			missing[name] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(missing)), slices.Sorted(maps.Keys(table)))
}

// Both stacks use the same values of the label result.
func TestResultsAreTheSame(t *testing.T) {
	millrace, controllerRuntime := both(t)
	results := func(s scrape) (all []string) {
		for _, m := range s["controller_runtime_reconcile_total"].Metric {
			all = append(all, labelsOf(m)["result"])
		}
		slices.Sort(all)
		return all
	}
	require.Equal(t, results(controllerRuntime), results(millrace))
}
