package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// pageHead is the text above the table.
const pageHead = `# Breakages

Each of these breakages was put into Millrace on purpose, alone. The schedules of
[test/simulation](../test/simulation/doc.go) were played from seed 0 on until one of them
complained: the number says how many that took, and the law is what the complaint named first.
Where work is shared the schedules are those of the test that is named.
Where no schedule can find a breakage, a test does, and the table says why. ` + "`go run ./test/mutate -table results/breakages.md`" + ` plays all of them, writes this page, and fails if one is found by nothing.

| breakage | law | found by | what is broken |
|---|---|---|---|
`

// row returns the table row for a result.
func (r *result) row() string {
	by := r.verdict()
	switch unit := r.patch.test; {
	case r.found && unit.name != "":
		by = fmt.Sprintf("`%s` of %s: %s", unit.name, strings.TrimPrefix(unit.pack, "./"), unit.why)
	case r.found:
		by += ", " + r.complaint
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", r.patch.name, r.patch.law, strings.ReplaceAll(by, "|", "\\|"), strings.ReplaceAll(r.patch.text, "|", "\\|"))
}

// writePage writes the table of all breakages. Breakages that were not tried keep their row.
func writePage(file string, all []*patch, results []result) error {
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(before)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok {
			rows[name] = strings.TrimSuffix(line, "\n")
		}
	}
	for _, r := range results {
		rows[r.patch.name] = r.row()
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, p := range all {
		row, ok := rows[p.name]
		if !ok {
			row = (&result{patch: p, err: errors.New("yet to be played")}).row()
		}
		b.WriteString(row + "\n")
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
