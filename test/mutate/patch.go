package main

import (
	"fmt"
	"strings"
)

// patch is one breakage.
type patch struct {
	name      string
	law       string // the law it breaks
	text      string // what is broken
	schedules unit   // the test that runs the schedules
	test      unit   // the test that finds the breakage if no schedule can; otherwise zero
	files     []filePatch
}

// unit is a test. If the test is used because no schedule finds the breakage, why is the reason.
type unit struct{ pack, name, why string }

// simulation runs the schedules for most breakages.
var simulation = unit{pack: "./test/simulation", name: "TestSchedules"}

// filePatch is the change to one file.
type filePatch struct {
	path  string // relative to the module root
	hunks []hunk
}

// hunk replaces the lines in before with the lines in after.
type hunk struct{ before, after string }

// parse parses a patch: a line "LAW: what is broken", optionally a line "schedules PACKAGE NAME" or "test
// PACKAGE NAME: why no schedule finds it", and a unified diff.
func parse(name, text string) (*patch, error) {
	head, diff, _ := strings.Cut(text, "\n")
	law, what, ok := strings.Cut(head, ": ")
	if !ok {
		return nil, fmt.Errorf("patch %s: first line %q: must be the law, a colon and a description of the breakage", name, head)
	}
	p := &patch{name: name, law: law, text: what, schedules: simulation}
	if rest, ok := strings.CutPrefix(diff, "schedules "); ok {
		var line string
		line, diff, _ = strings.Cut(rest, "\n")
		pack, test, ok := strings.Cut(line, " ")
		if !ok {
			return nil, fmt.Errorf("patch %s: second line %q: must be schedules PACKAGE NAME", name, "schedules "+line)
		}
		p.schedules = unit{pack: pack, name: test}
	}
	if rest, ok := strings.CutPrefix(diff, "test "); ok {
		var line string
		line, diff, _ = strings.Cut(rest, "\n")
		where, why, _ := strings.Cut(line, ": ")
		pack, test, ok := strings.Cut(where, " ")
		if !ok || why == "" {
			return nil, fmt.Errorf("patch %s: second line %q: must be test PACKAGE NAME: why no schedule finds it", name, "test "+line)
		}
		p.test = unit{pack, test, why}
	}
	var file *filePatch
	for n, line := range strings.SplitAfter(diff, "\n") {
		var h *hunk
		if file != nil && len(file.hunks) > 0 {
			h = &file.hunks[len(file.hunks)-1]
		}
		switch {
		case line == "", strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			p.files = append(p.files, filePatch{path: strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))})
			file = &p.files[len(p.files)-1]
		case strings.HasPrefix(line, "@@") && file != nil:
			file.hunks = append(file.hunks, hunk{})
		case h == nil:
			return nil, fmt.Errorf("patch %s: line %d is %q, outside of a hunk", name, n+2, line)
		default:
			if err := h.add(line); err != nil {
				return nil, fmt.Errorf("patch %s: line %d: %w", name, n+2, err)
			}
		}
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("patch %s changes nothing", name)
	}
	return p, nil
}

func (h *hunk) add(line string) error {
	switch line[0] {
	case ' ':
		h.before += line[1:]
		h.after += line[1:]
	case '-':
		h.before += line[1:]
	case '+':
		h.after += line[1:]
	default:
		return fmt.Errorf("line %q must start with a space, - or +", line)
	}
	return nil
}

// apply returns the patched text of a file. Each hunk must match in exactly one place.
func (f *filePatch) apply(text string) (string, error) {
	for n, h := range f.hunks {
		lines := "\n" + text
		switch fits := strings.Count(lines, "\n"+h.before); fits {
		case 1:
			text = strings.Replace(lines, "\n"+h.before, "\n"+h.after, 1)[1:]
		case 0:
			return "", fmt.Errorf("%s: hunk %d no longer fits: recreate the patch", f.path, n+1)
		default:
			return "", fmt.Errorf("%s: hunk %d matches in %d positions: add more context lines", f.path, n+1, fits)
		}
	}
	return text, nil
}
