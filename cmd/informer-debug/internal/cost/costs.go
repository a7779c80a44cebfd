package cost

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
)

// estimate is an estimated number of bytes, with the lowest and highest estimates from any single quarter of
// the sample. All three are equal if every object was measured.
type estimate struct {
	Bytes int64 `json:"bytes"`
	Low   int64 `json:"low"`
	High  int64 `json:"high"`
}

// estimate extrapolates from the quarters of a sample to all objects. If once is true, the first quarter
// includes a one-time cost, so the cost per object is derived from the other quarters.
func (w weight) estimate(counts [fourths]int, all int, once bool) (e estimate) {
	var objects, bytes int64
	for n, count := range counts {
		objects, bytes = objects+int64(count), bytes+w.of[n]
	}
	bytes = max(0, bytes) // garbage collection may free more memory than the objects use
	if objects == 0 || int64(all) <= objects {
		return estimate{bytes, bytes, bytes}
	}
	first := 0
	if once && counts[1] > 0 {
		first = 1
	}
	more := float64(int64(all) - objects)
	var grown float64
	var by int
	low, high := math.Inf(1), math.Inf(-1)
	for n := first; n < fourths; n++ {
		if counts[n] == 0 {
			continue
		}
		each := float64(w.of[n]) / float64(counts[n])
		low, high = min(low, each), max(high, each)
		grown, by = grown+float64(w.of[n]), by+counts[n]
	}
	to := func(each float64) int64 { return max(0, bytes+int64(more*each)) }
	return estimate{to(grown / float64(by)), to(low), to(high)}
}

// String returns the estimate and, if the quarters differ, half their spread.
func (e estimate) String() string {
	text := terminal.Bytes(e.Bytes)
	if e.Bytes > 0 && e.High > e.Low {
		text += fmt.Sprintf(" ±%.0f%%", 100*float64(e.High-e.Low)/2/float64(e.Bytes))
	}
	return text
}

func (e *estimate) add(o estimate) {
	e.Bytes, e.Low, e.High = e.Bytes+o.Bytes, e.Low+o.Low, e.High+o.High
}

// cost is the result for one type. Scripts rely on its JSON fields.
type cost struct {
	at  cluster.Target
	err error

	Type         string    `json:"type"`
	Error        string    `json:"error,omitempty"`
	Objects      int       `json:"objects"`
	Sample       int       `json:"sample"`
	Short        string    `json:"short,omitempty"` // reason the sample is smaller than requested
	Unstructured bool      `json:"unstructured"`    // whether the objects have no Go type
	Wire         estimate  `json:"wire"`
	ClientGo     estimate  `json:"clientGo"`
	Whole        estimate  `json:"whole"`
	Packed       estimate  `json:"packed"`
	NoManaged    estimate  `json:"noManaged"`
	Metadata     estimate  `json:"metadata"`
	Keep         *estimate `json:"keep,omitempty"`
}

// columns returns the estimates in the order of the table's columns.
func (c *cost) columns() []*estimate {
	return []*estimate{&c.Wire, &c.ClientGo, &c.Whole, &c.Packed, &c.NoManaged, &c.Metadata}
}

// costs contains the results for several types.
type costs struct {
	Types []*cost `json:"types"`
	Total cost    `json:"total"`
}

// sum sorts the types, most expensive first, and adds them up.
func (a *costs) sum() {
	slices.SortStableFunc(a.Types, func(x, y *cost) int {
		return cmp.Or(cmp.Compare(y.ClientGo.Bytes, x.ClientGo.Bytes), cmp.Compare(x.Type, y.Type))
	})
	a.Total = cost{Type: "total"}
	for _, t := range a.Types {
		if t.err != nil {
			continue
		}
		a.Total.Objects, a.Total.Sample = a.Total.Objects+t.Objects, a.Total.Sample+t.Sample
		for n, e := range a.Total.columns() {
			e.add(*t.columns()[n])
		}
		if t.Keep != nil {
			if a.Total.Keep == nil {
				a.Total.Keep = &estimate{}
			}
			a.Total.Keep.add(*t.Keep)
		}
	}
}

func (a *costs) write(w io.Writer, f *costFlags) error {
	if f.output.Value == "json" {
		return debug.WriteJSON(w, a)
	}
	t := terminal.NewText()
	header := []string{"TYPE", "OBJECTS", "SAMPLE", "ON THE WIRE", "CLIENT-GO", "WHOLE", "PACKED", "NO MANAGED", "METADATA"}
	if f.keep != "" {
		header = append(header, "KEEP")
	}
	t.Line(header...)
	var empty []string
	for _, c := range a.Types {
		switch {
		case c.err != nil:
		case c.Objects == 0:
			empty = append(empty, c.Type)
		default:
			c.row(t, f.keep != "")
		}
	}
	if len(a.Types) > 1 {
		a.Total.row(t, f.keep != "")
	}
	if len(empty) > 0 {
		t.Line()
		t.Line(fmt.Sprintf("no objects of %s", strings.Join(empty, ", ")))
	}
	first := len(empty) == 0
	for _, c := range a.Types {
		for _, say := range []struct{ what, text string }{{"could not be read: ", c.Error}, {"the sample ", c.Short}} {
			if say.text == "" {
				continue
			}
			if first {
				t.Line()
				first = false
			}
			t.Line(c.Type + ": " + say.what + say.text)
		}
	}
	return t.Print(w)
}

func (c *cost) row(t *terminal.Text, keep bool) {
	cells := []string{c.Type, fmt.Sprint(c.Objects), fmt.Sprint(c.Sample)}
	for _, e := range c.columns() {
		cells = append(cells, e.String())
	}
	switch {
	case keep && c.Keep == nil:
		cells = append(cells, "-")
	case keep:
		cells = append(cells, c.Keep.String())
	}
	t.Line(cells...)
}
