package get

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
)

const (
	// asTable is the Accept header for the server's own columns.
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

	tablePage     = 500              // rows per response
	tablePatience = 30 * time.Second // for all responses
	mostTable     = 64 << 20         // bytes per response
)

// serverTable is the server's table for the objects of one informer.
type serverTable struct {
	columns []metav1.TableColumnDefinition
	rows    map[object.Key]serverRow
}

type serverRow struct {
	rv    string
	cells []any
}

// printedBy requests the server's table for the objects of one of our own informers. expected is the
// approximate number of objects.
func printedBy(ctx context.Context, v *sight.Sight, o *sight.Own, expected int) (*serverTable, error) {
	ctx, cancel := context.WithTimeout(ctx, tablePatience)
	defer cancel()
	client, base, err := v.Config.HTTPClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	query := url.Values{"limit": {fmt.Sprint(tablePage)}, "includeObject": {"Metadata"}}
	if s := v.Flags.Labels.String(); s != "" {
		query.Set("labelSelector", s)
	}
	if s := v.Flags.Fields.String(); s != "" {
		query.Set("fieldSelector", s)
	}
	all := &serverTable{rows: map[object.Key]serverRow{}}
	for range expected/tablePage + 10 { // limited, in case the server never ends the list
		to := base.JoinPath(o.Target.Path())
		to.RawQuery = query.Encode()
		page, err := tableAt(ctx, client, v.Config, to.String())
		if err != nil {
			return nil, err
		}
		if err := all.add(page); err != nil {
			return nil, err
		}
		if page.Continue == "" {
			break
		}
		query.Set("continue", page.Continue)
	}
	return all, nil
}

// errNoTables is returned if a server does not support tables, like demo's. It is not reported to the user.
var errNoTables = errors.New("the server does not support tables")

func tableAt(ctx context.Context, client *http.Client, cfg *config.Config, address string) (*metav1.Table, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", asTable)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotAcceptable:
		return nil, errNoTables
	default:
		return nil, fmt.Errorf("it responds with HTTP status %d", resp.StatusCode)
	}
	var page metav1.Table
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostTable)).Decode(&page); err != nil {
		return nil, err
	}
	if page.Kind != "Table" {
		return nil, fmt.Errorf("it responds with a %s", cfg.Conceal(page.Kind, resp.Request))
	}
	return &page, nil
}

// add adds a page's rows.
func (t *serverTable) add(page *metav1.Table) error {
	if len(page.ColumnDefinitions) > 0 { // only the first page must include them
		t.columns = page.ColumnDefinitions
	}
	for _, row := range page.Rows {
		var of metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &of); err != nil {
			return fmt.Errorf("a row without metadata: %w", err)
		}
		t.rows[object.KeyOf(&of)] = serverRow{of.ResourceVersion, row.Cells}
	}
	return nil
}

// asServerPrints prints a cache's objects with the server's columns. It reports whether the server
// provided any.
func (g *getter) asServerPrints(ctx context.Context, o *sight.Own, all []item) (done bool, err error) {
	if len(all) == 0 {
		return false, nil
	}
	from, err := printedBy(ctx, g.sight, o, len(all))
	if err == nil && len(from.columns) == 0 {
		err = fmt.Errorf("the table has no columns")
	}
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errNoTables) {
			g.console.State(time.Now(), "%-12s  the server provides no table for %s; showing the common columns: %v", "table", o.Target, err)
		}
		return false, nil
	}
	t := g.table()
	namespaced := o.Target.Mapping.Namespaced && o.Target.Namespace == ""
	if namespaced {
		t.Header = append(t.Header, "NAMESPACE")
	}
	var shown []int
	for n, column := range from.columns {
		if column.Priority == 0 || g.output.Form == output.Wide {
			shown = append(shown, n)
			t.Header = append(t.Header, strings.ToUpper(column.Name))
		}
	}
	g.labelHeaders(t)
	others := 0
	for _, one := range all {
		h := &one.head
		row, ok := from.rows[object.Key{Namespace: h.Namespace, Name: h.Name}]
		if !ok || row.rv != h.RV {
			others++
		}
		var cells []string
		if namespaced {
			cells = append(cells, h.Namespace)
		}
		for _, n := range shown {
			cells = append(cells, cellOf(&from.columns[n], row.cells, n, h.Name))
		}
		t.Row(g.labelCells(cells, h.Labels)...)
	}
	if others > 0 {
		g.console.Trouble(time.Now(), "%-12s  %d of %d objects have changed since: their columns show the server's current state, or -", "table", others, len(all))
	}
	return true, t.Write()
}

// cellOf returns the n-th cell of a row. If the row is missing, it returns the name for the name column
// and a dash otherwise.
func cellOf(column *metav1.TableColumnDefinition, cells []any, n int, name string) string {
	switch {
	case n < len(cells) && cells[n] != nil:
		return jsonpath.Text(cells[n])
	case column.Format == "name" || n == 0 && len(cells) == 0:
		return name
	case len(cells) == 0:
		return "-"
	}
	return output.Nothing
}
