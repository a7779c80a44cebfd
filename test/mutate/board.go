package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// board is the code with many breakages at once. The environment variable MUTATE selects one by number, so a
// single build serves all of them. A function that can be broken has a copy for each of its breakages and
// starts with
//
//	if brokenBy == 7 {
//		return f.push_7(item)
//	}
//
// Breakages that change anything outside functions cannot be selected this way, and are built separately.
type board struct {
	root    string
	numbers map[*patch]int
	files   map[string]*boardFile // by path
}

// boardFile is one file of a board.
type boardFile struct {
	pack     string // package name
	source   string
	inserts  map[int]string // by offset in source
	appended strings.Builder
	imports  []string // needed by copies but missing from the file
}

func newBoard(root string) *board {
	return &board{root: root, numbers: map[*patch]int{}, files: map[string]*boardFile{}}
}

// add adds a breakage to the board. It returns false and leaves the board unchanged if the patch changes
// more than functions.
func (b *board) add(p *patch) (bool, error) {
	number := len(b.numbers) + 1
	var parts []func()
	for _, f := range p.files {
		file := b.files[f.path]
		if file == nil {
			text, err := os.ReadFile(filepath.Join(b.root, f.path))
			if err != nil {
				return false, err
			}
			file = &boardFile{source: string(text), inserts: map[int]string{}}
		}
		patched, err := f.apply(file.source)
		if err != nil {
			return false, err
		}
		put, ok := file.variants(patched, number)
		if !ok {
			return false, nil
		}
		parts = append(parts, func() {
			b.files[f.path] = file
			put()
		})
	}
	for _, put := range parts {
		put()
	}
	b.numbers[p] = number
	return true, nil
}

// parsed is a file with its declarations.
type parsed struct {
	text      string
	file      *ast.File
	set       *token.FileSet
	functions map[string]*ast.FuncDecl
	others    string // everything except functions and imports
	imports   []string
}

func parseText(text string) (*parsed, error) {
	p := &parsed{text: text, set: token.NewFileSet(), functions: map[string]*ast.FuncDecl{}}
	var err error
	if p.file, err = parser.ParseFile(p.set, "f.go", text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, d := range p.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.functions[p.keyOf(d)] = d
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				p.others += p.of(d)
			}
		}
	}
	for _, i := range p.file.Imports {
		p.imports = append(p.imports, p.of(i))
	}
	return p, nil
}

func (p *parsed) offset(at token.Pos) int { return p.set.Position(at).Offset }

// of returns a node's text.
func (p *parsed) of(n ast.Node) string { return p.text[p.offset(n.Pos()):p.offset(n.End())] }

func (p *parsed) keyOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return p.of(d.Recv.List[0].Type) + "." + d.Name.Name
}

// variants compares the file with its patched version. It returns a function that adds the changed
// functions to f.
func (f *boardFile) variants(patched string, number int) (put func(), ok bool) {
	before, err := parseText(f.source)
	if err != nil {
		return nil, false
	}
	after, err := parseText(patched)
	if err != nil || before.others != after.others {
		return nil, false
	}
	inserts, appended := map[int]string{}, ""
	for _, d := range after.file.Decls {
		d, isFunction := d.(*ast.FuncDecl)
		if !isFunction {
			continue
		}
		was, there := before.functions[after.keyOf(d)]
		switch {
		case !there:
			appended += "\n" + after.of(d) + "\n"
		case before.of(was) != after.of(d):
			call, ok := before.callOf(was, number)
			if !ok {
				return nil, false
			}
			inserts[before.offset(was.Body.Lbrace)+1] = call
			name := after.offset(d.Name.End())
			appended += "\n" + after.text[after.offset(d.Pos()):name] + fmt.Sprint("_", number) + after.text[name:after.offset(d.End())] + "\n"
		}
	}
	return func() {
		f.pack = before.file.Name.Name
		for at, call := range inserts {
			f.inserts[at] += call
		}
		f.appended.WriteString(appended)
		for _, i := range after.imports {
			if !slices.Contains(before.imports, i) && !slices.Contains(f.imports, i) {
				f.imports = append(f.imports, i)
			}
		}
	}, true
}

// callOf returns the code to insert at the start of a function that can be broken. It returns false if the
// function has unnamed parameters, since those cannot be passed on.
func (p *parsed) callOf(d *ast.FuncDecl, number int) (string, bool) {
	name := fmt.Sprint(d.Name.Name, "_", number)
	if d.Recv != nil {
		receiver := d.Recv.List[0].Names
		if len(receiver) == 0 || receiver[0].Name == "_" {
			return "", false
		}
		name = receiver[0].Name + "." + name
	}
	if d.Type.TypeParams != nil {
		types, _ := namesOf(d.Type.TypeParams)
		name += "[" + strings.Join(types, ", ") + "]"
	}
	args, ok := namesOf(d.Type.Params)
	if !ok {
		return "", false
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if d.Type.Results == nil {
		return fmt.Sprintf("\nif brokenBy == %d {\n%s\nreturn\n}\n", number, call), true
	}
	return fmt.Sprintf("\nif brokenBy == %d {\nreturn %s\n}\n", number, call), true
}

// namesOf returns parameter names as call arguments.
func namesOf(params *ast.FieldList) (names []string, ok bool) {
	for _, field := range params.List {
		if len(field.Names) == 0 {
			return nil, false
		}
		for _, n := range field.Names {
			if n.Name == "_" {
				return nil, false
			}
			name := n.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			names = append(names, name)
		}
	}
	return names, true
}

// choice declares the variable that selects a breakage.
const choice = `package %s

import (
	"os"
	"strconv"
)

var brokenBy, _ = strconv.Atoi(os.Getenv("MUTATE"))
`

// overlay returns the text of each changed file, by path.
func (b *board) overlay() map[string]string {
	all := map[string]string{}
	for path, f := range b.files {
		all[path] = f.text()
		all[filepath.Join(filepath.Dir(path), "zz_mutate.go")] = fmt.Sprintf(choice, f.pack)
	}
	return all
}

// text returns the file with all insertions.
func (f *boardFile) text() string {
	text := f.source
	offsets := []int{}
	for at := range f.inserts {
		offsets = append(offsets, at)
	}
	slices.Sort(offsets)
	for _, at := range slices.Backward(offsets) {
		text = text[:at] + f.inserts[at] + text[at:]
	}
	for _, i := range f.imports {
		text = strings.Replace(text, "package "+f.pack+"\n", "package "+f.pack+"\n\nimport "+i+"\n", 1)
	}
	return text + f.appended.String()
}
