package manager

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"reflect"
	"strings"
)

// serveStatus serves the Report as HTML to browsers, and as JSON to other clients or with ?format=json.
func (m *Manager) serveStatus(w http.ResponseWriter, r *http.Request) {
	status, err := read(reflect.ValueOf(m.Report()))
	if err != nil {
		http.Error(w, fmt.Sprint("the status cannot be written: ", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Vary", "Accept")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Get("format") != "json" && strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		// The client may have disconnected.
		_, _ = w.Write([]byte(statusPage(status)))
		return
	}
	body, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		http.Error(w, fmt.Sprint("the status cannot be written: ", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}

const statusHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Status</title><style>
body { font: 14px/1.4 sans-serif; margin: 2em; }
table { border-collapse: collapse; }
th, td { border: 1px solid #ccc; padding: .15em .5em; text-align: left; vertical-align: top; }
th { background: #f4f4f4; font-weight: normal; }
</style></head><body>
<p><a href="millrace/">look inside</a> &middot; <a href="?format=json">as JSON</a> &middot; <a href="/readyz?verbose">readyz</a> &middot;
<a href="/healthz?verbose">healthz</a> &middot; <a href="/debug/pprof/">pprof</a></p>
`

// statusPage renders a status as HTML.
func statusPage(status readable) string {
	var b strings.Builder
	b.WriteString(statusHead)
	writeHTML(&b, status)
	b.WriteString("\n</body></html>\n")
	return b.String()
}

// writeHTML writes members as tables, and lists with each entry on its own line.
func writeHTML(b *strings.Builder, value readable) {
	switch v := value.(type) {
	case nil:
		b.WriteString("none")
	case members:
		b.WriteString("<table>\n")
		for _, one := range v {
			fmt.Fprintf(b, "<tr><th>%s</th><td>", html.EscapeString(one.name))
			writeHTML(b, one.value)
			b.WriteString("</td></tr>\n")
		}
		b.WriteString("</table>")
	case []readable:
		for _, one := range v {
			b.WriteString("<div>")
			writeHTML(b, one)
			b.WriteString("</div>")
		}
	default:
		b.WriteString(html.EscapeString(fmt.Sprint(v)))
	}
}
