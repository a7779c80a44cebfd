package shards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/output"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/shard"
)

// write prints groups. later is true if groups have been printed before.
func (f *shardsFlags) write(w io.Writer, groups []debug.Group, later bool) error {
	switch f.output.Value {
	case output.JSON:
		return debug.WriteJSON(w, groups)
	case output.JSONL:
		for n := range groups {
			if err := debug.WriteJSONLine(w, &groups[n]); err != nil {
				return err
			}
		}
		return nil
	case output.YAML:
		return writeGroupsYAML(w, groups, later)
	}
	several := f.allNamespaces
	for n := range groups {
		several = several || groups[n].Namespace != groups[0].Namespace
	}
	for n := range groups {
		if n > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := f.writeGroup(w, &groups[n], several); err != nil {
			return err
		}
	}
	return nil
}

func writeGroupsYAML(w io.Writer, groups []debug.Group, later bool) error {
	var b bytes.Buffer
	if err := debug.WriteJSON(&b, groups); err != nil {
		return err
	}
	from := json.NewDecoder(&b)
	from.UseNumber()
	var tree any
	if err := from.Decode(&tree); err != nil {
		return err
	}
	if later {
		if _, err := fmt.Fprintln(w, "---"); err != nil {
			return err
		}
	}
	return output.WriteYAML(w, numbered(tree))
}

// numbered converts json.Number values to types that output.WriteYAML accepts.
func numbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = numbered(v[name])
		}
	case []any:
		for n := range v {
			v[n] = numbered(v[n])
		}
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		part, _ := v.Float64() // already validated by the decoder
		return part
	}
	return v
}

// writeGroup prints a summary of the group, its members and its moves. If several is true, the namespace
// precedes the name.
func (f *shardsFlags) writeGroup(w io.Writer, g *debug.Group, several bool) error {
	if _, err := fmt.Fprintln(w, terminal.OneLine(sentence(g, several))); err != nil {
		return err
	}
	if g.Identity != "" {
		text := fmt.Sprintf("reported by %s, which works on %s", g.Identity, owned(g, f.output.Value == output.Wide))
		if g.Refusal != "" {
			text = fmt.Sprintf("reported by %s, which does not participate: %s", g.Identity, g.Refusal)
		}
		if _, err := fmt.Fprintln(w, terminal.OneLine(text)); err != nil {
			return err
		}
	}
	wide := f.output.Value == output.Wide
	members := &terminal.Table{To: w, NoHeaders: f.noHeaders, Header: []string{"MEMBER", "WEIGHT", "HAS", "WANTS", "SILENT", "STATE"}}
	if wide {
		members.Header = append(members.Header, "LEASE", "LAYOUT", "SLOTS")
	}
	for _, m := range g.Members {
		members.Row(m.Identity, strconv.Itoa(m.Weight), strconv.Itoa(m.Has), strconv.Itoa(m.Wants), terminal.Duration(m.Silent), stateOf(&m), m.Lease, m.Layout, terminal.OrDash(m.Slots))
	}
	if err := members.Write(); err != nil || len(g.Moves) == 0 {
		return err
	}
	moves := &terminal.Table{To: w, NoHeaders: f.noHeaders, Header: []string{"FROM", "TO", "MOVING", "WAITED", "HANDS"}}
	if wide {
		moves.Header = append(moves.Header, "SLOTS")
	}
	for _, m := range g.Moves {
		waited, hands := "-", "-"
		if m.Waited > 0 {
			waited = terminal.Duration(m.Waited)
		}
		if m.From == g.Identity {
			hands = strconv.Itoa(m.Hands)
		}
		moves.Row(m.From, terminal.OrDash(m.To), strconv.Itoa(m.Count), waited, hands, m.Slots)
	}
	return moves.Write()
}

// sentence summarizes a group.
func sentence(g *debug.Group, several bool) string {
	if g.Name == "" { // the status is unavailable
		return "a group: " + g.Refusal
	}
	name := g.Name
	if several {
		name = g.Namespace + "/" + name
	}
	moving := 0
	for _, m := range g.Moves {
		moving += m.Count
	}
	parts := []string{
		terminal.Counted(g.Slots, "slot"), terminal.Counted(len(g.Members), "member"),
		fmt.Sprintf("%d without an owner", g.Orphaned),
	}
	if silent := silentSlots(g); silent > 0 {
		parts = append(parts, fmt.Sprintf("%d of silent members", silent))
	}
	parts = append(parts, fmt.Sprintf("%d moving", moving))
	if len(g.Members) > 0 {
		parts = append(parts, fmt.Sprintf("the largest has %.0f%% more than its share", 100*g.Imbalance))
	}
	text := fmt.Sprintf("group %s: %s", name, strings.Join(parts, ", "))
	if g.Seen.IsZero() {
		text = fmt.Sprintf("group %s: %s, not seen yet", name, terminal.Counted(g.Slots, "slot"))
	}
	if g.Attempts > 0 {
		text += fmt.Sprintf("; failed %d times in a row: %s", g.Attempts, g.Failure)
	}
	return text
}

// silentSlots counts the slots held by members that may be dead.
func silentSlots(g *debug.Group) (n int) {
	for _, m := range g.Members {
		if m.Late || m.Expired {
			n += m.Has
		}
	}
	return n
}

// owned returns the number of slots the reporting member works on and, if which is true, the slots.
func owned(g *debug.Group, which bool) string {
	set, err := shard.ParseSlots(g.Owned, g.Slots)
	switch {
	case err != nil: // from another version
		return "slots " + g.Owned
	case set.Len() == 0:
		return "no slots"
	case which:
		return fmt.Sprintf("%s: %s", terminal.Counted(set.Len(), "slot"), g.Owned)
	}
	return terminal.Counted(set.Len(), "slot")
}

func stateOf(m *debug.Member) string {
	switch {
	case m.Trouble != "":
		return "out: " + m.Trouble
	case m.Expired:
		return "silent for too long"
	case m.Leaving:
		return "leaving"
	case m.Deaf:
		return "takes no slots: its watch of the Leases delivers nothing"
	case m.Late:
		return "silent"
	}
	return "ok"
}
