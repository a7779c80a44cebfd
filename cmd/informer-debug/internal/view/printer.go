package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/internal/printable"
	"github.com/millrace-dev/millrace/object"
)

// printer writes changes to stdout in one format, each with a single Write.
type printer interface {
	print(c *change) error
}

// newPrinter returns the printer for --output. It calls measure at the first change to determine the initial
// column widths.
func newPrinter(s terminal.Streams, f *Flags, resource object.GVR, measure func() widths) printer {
	switch f.output.Value {
	case "json":
		return &jsonPrinter{w: s.Out, resource: resource, stage: f.stage, indent: "    "}
	case "jsonl":
		return &jsonPrinter{w: s.Out, resource: resource, stage: f.stage}
	case "name":
		return &namePrinter{w: s.Out, resource: resource}
	}
	return &tablePrinter{
		w: s.Out, colors: terminal.NewPalette(s.OutTerminal, s.Env), measure: measure,
		wide: f.output.Value == "wide", header: !f.noHeaders, diff: f.diff, stage: f.stage,
	}
}

// namePrinter writes three words: the kind of change, the namespace or "-", and a resource/name that kubectl
// accepts as an argument.
type namePrinter struct {
	w        io.Writer
	resource object.GVR
}

func (p *namePrinter) print(c *change) error {
	_, err := fmt.Fprintf(p.w, "%s %s %s/%s\n", c.kind, terminal.OneLine(cmp.Or(c.object.GetNamespace(), "-")), terminal.OneLine(object.ResourceName(p.resource)), terminal.OneLine(c.object.GetName()))
	return err
}

// jsonPrinter writes one record per change, on one line or indented.
type jsonPrinter struct {
	w        io.Writer
	resource object.GVR
	stage    bool
	indent   string // empty to print on one line
}

// record is a change as JSON. Scripts rely on its fields.
type record struct {
	Type              string         `json:"type"` // add, update or delete
	Time              time.Time      `json:"time"` // when the handler was called
	Resource          string         `json:"resource"`
	Key               string         `json:"key"`
	UID               string         `json:"uid"`
	RV                string         `json:"rv"`
	Initial           bool           `json:"initial,omitempty"`
	FinalStateUnknown bool           `json:"finalStateUnknown,omitempty"`
	Changed           []string       `json:"changed,omitempty"`
	Changes           []recordChange `json:"changes,omitempty"` // the first fields in Changed, with their values; not for Secrets
	Latency           *recordLatency `json:"latency,omitempty"` // omitted for initial objects
	Stages            *recordStages  `json:"stages,omitempty"`  // the same stages as points in time, with --stage
	Object            object.Object  `json:"object"`            // only metadata for Secrets
}

// recordLatency holds nanoseconds.
type recordLatency struct {
	Decode  time.Duration `json:"decodeNs"`
	Queue   time.Duration `json:"queueNs"`
	Apply   time.Duration `json:"applyNs"`
	Deliver time.Duration `json:"deliverNs"`
	Total   time.Duration `json:"totalNs"`
}

// recordStages contains the times at which a change completed each stage.
type recordStages struct {
	Received time.Time `json:"received"`
	Decoded  time.Time `json:"decoded"`
	Queued   time.Time `json:"queued"`
	Applied  time.Time `json:"applied"`
	Told     time.Time `json:"told"`
}

// recordChange is a field with its old and new value. Missing values are omitted.
type recordChange struct {
	Path string          `json:"path"`
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

const (
	mostChanges = 100 // values per record
	mostValue   = 512 // maximum size of a value, in bytes; longer ones are abbreviated
)

// changesOf returns the first differences, with their values.
func changesOf(differences []diff.Change) (all []recordChange, err error) {
	value := func(v any, there bool) json.RawMessage {
		if !there || err != nil {
			return nil
		}
		var text []byte
		if text, err = json.Marshal(v); err == nil && len(text) > mostValue {
			text, err = json.Marshal(diff.Brief(v))
		}
		return text
	}
	for _, d := range differences[:min(len(differences), mostChanges)] {
		all = append(all, recordChange{d.Path, value(d.Old, d.Had), value(d.New, d.Has)})
	}
	return all, err
}

func (p *jsonPrinter) print(c *change) error {
	key := object.FormatKey(object.KeyOf(c.object))
	r := record{
		Type: c.kind.String(), Time: c.at, Resource: object.ResourceName(p.resource), Key: key,
		UID: string(c.object.GetUID()), RV: c.object.GetResourceVersion(), Initial: c.initial, FinalStateUnknown: c.missed, Object: c.shown(),
	}
	differences, err := c.differences()
	if err != nil {
		return err
	}
	for _, d := range differences {
		r.Changed = append(r.Changed, d.Path)
	}
	if !c.confidential() {
		if r.Changes, err = changesOf(differences); err != nil {
			return fmt.Errorf("write changes to %s as JSON: %w", key, err)
		}
	}
	if l := c.latency; l.known {
		r.Latency = &recordLatency{l.decode, l.queue, l.apply, l.deliver, l.total}
		if m := l.moments(); p.stage {
			r.Stages = &recordStages{m[0], m[1], m[2], m[3], m[4]}
		}
	}
	text, err := json.Marshal(r)
	if p.indent != "" && err == nil {
		text, err = json.MarshalIndent(r, "", p.indent)
	}
	if err != nil {
		return fmt.Errorf("write %s as JSON: %w", key, err)
	}
	_, err = p.w.Write(append(printable.JSON(text), '\n'))
	return err
}
