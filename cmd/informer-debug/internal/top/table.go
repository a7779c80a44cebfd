package top

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// column describes a column in a table.
type column struct {
	name  string
	right bool // right-aligned, like numbers
	long  bool // may be shortened if space is tight
	ends  bool // shortened in the middle, because values differ at their ends
}

// cell is a cell in a row.
type cell struct {
	text  string
	value float64 // sort key; rows are sorted by text if all are equal
}

// row is a line in a table.
type row struct {
	id      string // stable across refreshes
	cells   []cell
	trouble bool          // marked with "!"
	about   string        // details shown for the current row
	enter   func() *place // nil if the row cannot be opened
}

// table is the content of a tab. If it has no columns, the first cell in each row is a line of text.
type table struct {
	columns []column
	rows    []row
	note    string // shown for the whole table
}

// order stably sorts rows by a column. If the column is -1, it puts rows in trouble first, so that they
// are visible without scrolling.
func (t *table) order(by int, reverse bool) {
	if by < 0 || by >= len(t.columns) {
		slices.SortStableFunc(t.rows, func(a, b row) int {
			switch {
			case a.trouble && !b.trouble:
				return -1
			case b.trouble && !a.trouble:
				return 1
			}
			return 0
		})
		return
	}
	slices.SortStableFunc(t.rows, func(a, b row) int {
		way := cmp.Or(cmp.Compare(a.cells[by].value, b.cells[by].value), cmp.Compare(a.cells[by].text, b.cells[by].text))
		if reverse {
			return -way
		}
		return way
	})
}

// only keeps the rows that contain words, ignoring case.
func (t *table) only(words string) {
	if words == "" {
		return
	}
	words = strings.ToLower(words)
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool {
		return !slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), words) })
	})
}

// gap is the space between columns.
const gap = 2

// widths returns the column widths that fit into width. It shortens long columns, the last one first, and
// then drops columns from the right by giving them width 0.
func (t *table) widths(width int) []int {
	const least = 12 // minimum width of a long column
	natural := make([]int, len(t.columns))
	for n, c := range t.columns {
		natural[n] = uniseg.StringWidth(c.name)
		for _, r := range t.rows {
			natural[n] = max(natural[n], uniseg.StringWidth(r.cells[n].text))
		}
	}
	for shown := len(natural); shown > 0; shown-- {
		all := slices.Clone(natural)
		clear(all[shown:])
		over := gap*(shown-1) - width
		for _, w := range all {
			over += w
		}
		for n := shown - 1; n >= 0 && over > 0; n-- {
			if t.columns[n].long {
				less := min(over, max(0, all[n]-least))
				all[n] -= less
				over -= less
			}
		}
		if over <= 0 {
			return all
		}
		if shown == 1 {
			all[0] = max(width, 1)
			return all
		}
	}
	return natural
}

// whole returns the full text of the row's shortened cells, or "" if there are none.
func (t *table) whole(line int, widths []int) string {
	var all []string
	for n, c := range t.columns {
		if text := t.rows[line].cells[n].text; c.long && widths[n] > 0 && uniseg.StringWidth(text) > widths[n] {
			all = append(all, text)
		}
	}
	return strings.Join(all, "  ")
}

// fit shortens or pads text to a width.
func fit(text string, width int, right bool) string {
	has := uniseg.StringWidth(text)
	if has > width {
		return cut(text, width)
	}
	fill := strings.Repeat(" ", width-has)
	if right {
		return fill + text
	}
	return text + fill
}

// cutMiddle shortens text to a width. It keeps the beginning and twice as much of the end.
func cutMiddle(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var parts []string
	for g := uniseg.NewGraphemes(text); g.Next(); {
		parts = append(parts, g.Str())
	}
	head, tail := strings.TrimRight(cut(text, max(1, width/3)), " "), ""
	for n := len(parts) - 1; n >= 0 && uniseg.StringWidth(head)+uniseg.StringWidth(parts[n]+tail) <= width; n-- {
		tail = parts[n] + tail
	}
	return head + tail
}

// cut shortens text to a width.
func cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(text); g.Next() && used+g.Width() < width; used += g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…" + strings.Repeat(" ", max(0, width-used-1))
}

// plain replaces control characters in untrusted text with spaces, since they could move the cursor.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}
