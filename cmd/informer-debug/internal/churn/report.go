package churn

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
)

// churned is the result for one resource. Scripts rely on its JSON fields.
type churned struct {
	Type string        `json:"type"`
	For  time.Duration `json:"for"`
	churnKinds
	Objects    ranking     `json:"objects"`
	Fields     []churnedAt `json:"fields"`
	MoreFields remainder   `json:"moreFields"`
	Managers   ranking     `json:"managers"`
	Decode     decodeCost  `json:"decode"`
	Predicates []spared    `json:"predicates"`
	Keep       []spared    `json:"keep"`
	Held       int         `json:"held"` // objects that had a previous state to compare with
	Full       bool        `json:"full"` // whether some objects' states did not fit
	Relists    uint64      `json:"relists"`
	Failures   uint64      `json:"failures"`
	Failure    string      `json:"failure,omitempty"` // the last one
}

// ranking contains the top entries of a count.
type ranking struct {
	Top []count `json:"top"`
	remainder
}

// remainder describes the entries that are not shown.
type remainder struct {
	Others  int `json:"others"`  // names that were counted but are not shown
	Untold  int `json:"untold"`  // events whose name was not counted individually
	Counted int `json:"counted"` // number of names
}

// churnedAt counts the changes to a field, by manager.
type churnedAt struct {
	count
	Managers []count `json:"managers"`
}

// decodeCost is the measured cost of decoding.
type decodeCost struct {
	Events   int           `json:"events"`   // events that had an object to decode
	Measured int           `json:"measured"` // events that were decoded again to measure them
	Took     time.Duration `json:"took"`     // estimate for all events
}

// spared describes the savings from one predicate or Keep.
type spared struct {
	Name   string        `json:"name"`
	Events int           `json:"events"`
	Decode time.Duration `json:"decode"`
}

// report returns the result. The reflector must have stopped by then.
func (c *churning) report(took time.Duration, limit int) *churned {
	r := &churned{
		Type: c.at.String(), For: took, churnKinds: c.kinds, Held: len(c.states), Full: !c.roomy,
		Objects: c.objects.ranking(limit), Managers: c.managers.ranking(limit),
		Relists: c.reflector.Relists, Failures: c.reflector.Failures, Fields: []churnedAt{},
	}
	if f := c.reflector.Failure; f != nil {
		r.Failure = terminal.OneLine(cluster.FailureText(f))
	}
	fields := c.fields.ranking(limit)
	r.MoreFields = fields.remainder
	for _, f := range fields.Top {
		r.Fields = append(r.Fields, churnedAt{f, c.of[f.Name].largest(0)})
	}
	s := &c.savings
	r.Decode = decodeCost{s.events, s.measured, scaled(s.took, s.measured, s.events)}
	for _, p := range s.predicates {
		r.Predicates = append(r.Predicates, spared{Name: p.name, Events: p.dropped, Decode: scaled(p.took, p.measured, p.dropped)})
	}
	for _, k := range s.keeps {
		r.Keep = append(r.Keep, spared{Name: k.fields.String(), Events: k.blind, Decode: scaled(s.took-k.took, s.measured, s.events)})
	}
	return r
}

func (c *counter) ranking(limit int) ranking {
	top := c.largest(limit)
	return ranking{top, remainder{Others: len(c.named) - len(top), Untold: c.beyond, Counted: len(c.named)}}
}

// write prints a report in the requested format. If behind is true, text output is separated from the
// preceding report.
func (f *churnFlags) write(w io.Writer, r *churned, behind bool) error {
	switch f.output.Value {
	case "json":
		return debug.WriteJSON(w, r)
	case "jsonl":
		return debug.WriteJSONLine(w, r)
	}
	t := terminal.NewText()
	r.doubts(t)
	if r.Events > 0 {
		t.Line()
		r.tables(t)
	}
	if behind {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return t.Write(w, r.headline())
}

func (r *churned) headline() string {
	head := fmt.Sprintf("%s: %d events within %s, %s, of %d objects; %d existed before", r.Type, r.Events, r.For.Round(time.Millisecond), terminal.Bytes(int64(r.Bytes)), r.Objects.Counted, r.Listed)
	var kinds []string
	for _, k := range []struct {
		n    int
		name string
	}{
		{r.Changed, "changed"}, {r.Added, "added"}, {r.Deleted, "deleted"}, {r.Unmoving, "changed nothing but managedFields and the version"},
		{r.Resent, "sent again with the same version"}, {r.Unheld, "changed and not compared"}, {r.Unreadable, "not readable"},
	} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.name))
		}
	}
	if len(kinds) > 0 {
		head += ". " + strings.Join(kinds, ", ")
	}
	return head
}

// doubts returns the reasons why the figures may be incomplete.
func (r *churned) doubts(t *terminal.Text) {
	if r.Full {
		t.Line(fmt.Sprintf("  only %d objects fit into memory: the fields of %d updates of others are unknown; -n and -l reduce what is watched", r.Held, r.Unheld))
	}
	if r.Missed > 0 {
		t.Line(fmt.Sprintf("  the watch was interrupted while %d objects changed, each at least once: these events are not counted", r.Missed))
	}
	if r.Failures > 0 {
		t.Line(fmt.Sprintf("  reading failed %s, last with %s", terminal.Times(r.Failures), r.Failure))
	}
}

func (r *churned) tables(t *terminal.Text) {
	r.ranked(t, "OBJECT", r.Objects)
	if len(r.Fields) > 0 {
		t.Line()
		t.Line("EVENTS", "FIELD", "BY")
	}
	for _, f := range r.Fields {
		var by []string
		for _, m := range f.Managers {
			by = append(by, fmt.Sprintf("%s %d", m.Name, m.Events))
		}
		t.Line(fmt.Sprint(f.Events), f.Name, strings.Join(by, ", "))
	}
	r.MoreFields.line(t)
	if len(r.Managers.Top) > 0 {
		t.Line()
		r.ranked(t, "MANAGER", r.Managers)
	}
	if r.Decode.Measured == 0 {
		return
	}
	t.Line()
	t.Line("EVENTS", "DECODE", "A PREDICATE WOULD DROP")
	for _, p := range r.Predicates {
		t.Line(fmt.Sprint(p.Events), r.share(p.Decode), p.Name)
	}
	t.Line()
	t.Line("EVENTS", "DECODE", "KEEP WOULD SAVE")
	for _, k := range r.Keep {
		t.Line(fmt.Sprint(k.Events), r.share(k.Decode), k.Name)
	}
	t.Line()
	t.Line(fmt.Sprintf("DECODE is a share of %s for the objects of %d events; %d were measured, each decoded again from JSON", terminal.Duration(r.Decode.Took), r.Decode.Events, r.Decode.Measured))
}

// share formats d as a time and as a share of the total decoding time. As the difference between two
// measurements, d may be slightly negative.
func (r *churned) share(d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%.0f%%)", terminal.Duration(d), 100*d.Seconds()/r.Decode.Took.Seconds())
}

func (r *churned) ranked(t *terminal.Text, what string, all ranking) {
	t.Line("EVENTS", what)
	for _, c := range all.Top {
		t.Line(fmt.Sprint(c.Events), c.Name)
	}
	all.line(t)
}

// line prints the number of entries not shown.
func (r *remainder) line(t *terminal.Text) {
	if r.Others > 0 {
		t.Line("", fmt.Sprintf("and %d more: --limit 0 shows all", r.Others))
	}
	if r.Untold > 0 {
		t.Line(fmt.Sprint(r.Untold), fmt.Sprintf("others beyond the first %d, counted together", r.Counted))
	}
}
