package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// dashboard is the relevant part of docs/monitoring/dashboard.json.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Targets                  []struct{ Expr, LegendFormat string }
	}
}

// legend is a label in a legend.
var legend = regexp.MustCompile(`{{(\w+)}}`)

// variables replaces the dashboard's variables by values, as a viewer's choice does.
var variables = strings.NewReplacer(
	"$__rate_interval", "5m", `"$job"`, `"janitor"`, `"$namespace"`, `"shop"`, `"$pod"`, `".*"`,
)

// Each panel shows data of a running program, and each series has the labels that its legend names.
func TestEachPanelShowsAProgram(t *testing.T) {
	program, err := ours()
	require.NoError(t, err)
	db := remember(program)
	text, err := os.ReadFile(filepath.Join(docs, "monitoring/dashboard.json"))
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	shown, ids := 0, map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			shown++
			expression := variables.Replace(target.Expr)
			require.NotContains(t, expression, "$", "%s: an unknown variable", p.Title)
			requireExported(t, program, p.Title, expression)
			found := db.query(t, expression, true)
			require.NotEmpty(t, found, "%s shows nothing: %s", p.Title, expression)
			for _, s := range found {
				for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
					require.NotEmpty(t, s.Metric.Get(label[1]), "%s: no label %s in %s", p.Title, label[1], s.Metric)
				}
			}
		}
	}
	require.Greater(t, shown, 20)
	values := regexp.MustCompile(`label_values\((.+), (\w+)\)`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		require.NoError(t, json.Unmarshal(v.Query, &q))
		asked := values.FindStringSubmatch(q.Query)
		require.NotNil(t, asked, q.Query)
		requireExported(t, program, v.Name, variables.Replace(asked[1]))
		require.Contains(t, target, asked[2])
	}
}

// requireExported checks that every metric in an expression exists, so that "or" and "+ 0" hide
// none.
func requireExported(t *testing.T, program scrape, where, expression string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	require.NoError(t, err, where)
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			name := s.Name
			if base, ok := strings.CutSuffix(name, "_bucket"); ok && program[name] == nil {
				name = base
			}
			require.NotNil(t, program[name], "%s: no program exports %s", where, s.Name)
			labels := labelsOf(program[name].Metric[0])
			for _, m := range s.LabelMatchers {
				_, theirs := labels[m.Name]
				_, prometheus := target[m.Name]
				require.True(t, theirs || prometheus || m.Name == "__name__", "%s: %s has no label %s", where, s.Name, m.Name)
			}
		}
		return nil
	})
}
