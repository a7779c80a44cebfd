package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/millrace-dev/millrace/internal/printable"
	"github.com/millrace-dev/millrace/object"
)

// printer writes changes to stdout in one format, each with one Write.
type printer interface {
	print(c *change) error
}

// newPrinter returns the printer for --output. The widths of a table's columns
// begin with what measure finds at the first change.
func newPrinter(s surroundings, f *viewFlags, resource object.GVR, measure func() widths) printer {
	switch f.output.value {
	case "json":
		return &jsonPrinter{w: s.stdout, resource: resource, indent: "    "}
	case "jsonl":
		return &jsonPrinter{w: s.stdout, resource: resource}
	case "name":
		return &namePrinter{w: s.stdout, resource: resource}
	}
	return &tablePrinter{
		w: s.stdout, colors: newPalette(s.outTerminal, s.env), measure: measure,
		wide: f.output.value == "wide", header: !f.noHeaders,
	}
}

// namePrinter writes three words: the kind of change, the namespace ("-" where there is
// none), and resource/name, which kubectl takes as an argument.
type namePrinter struct {
	w        io.Writer
	resource object.GVR
}

func (p *namePrinter) print(c *change) error {
	_, err := fmt.Fprintf(p.w, "%s %s %s/%s\n", c.kind, cmp.Or(c.object.GetNamespace(), "-"), object.ResourceName(p.resource), c.object.GetName())
	return err
}

// jsonPrinter writes one record for each change, on one line or indented.
type jsonPrinter struct {
	w        io.Writer
	resource object.GVR
	indent   string // empty for one line
}

// record is a change as JSON. Its fields are the interface to scripts.
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
	Latency           *recordLatency `json:"latency,omitempty"` // absent for initial objects
	Object            object.Object  `json:"object"`
}

// recordLatency holds nanoseconds.
type recordLatency struct {
	Decode  time.Duration `json:"decodeNs"`
	Queue   time.Duration `json:"queueNs"`
	Apply   time.Duration `json:"applyNs"`
	Deliver time.Duration `json:"deliverNs"`
	Total   time.Duration `json:"totalNs"`
}

func (p *jsonPrinter) print(c *change) error {
	key, rv := identity(c.object)
	r := record{
		Type: c.kind.String(), Time: c.at, Resource: object.ResourceName(p.resource), Key: key,
		UID: string(c.object.GetUID()), RV: rv, Initial: c.initial, FinalStateUnknown: c.missed, Object: c.object,
	}
	differences, err := c.differences()
	if err != nil {
		return err
	}
	for _, d := range differences {
		r.Changed = append(r.Changed, d.path)
	}
	if l := c.latency; l.known {
		r.Latency = &recordLatency{l.decode, l.queue, l.apply, l.deliver, l.total}
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
