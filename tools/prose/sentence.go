package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

type kind string

const (
	comment  kind = "comments"
	message  kind = "errors"
	markdown kind = "Markdown"
)

var kinds = []kind{comment, message, markdown}

type sentence struct {
	kind kind
	file string
	line int // of its paragraph
	text string
}

// readAll returns the sentences in all files below a directory.
func readAll(root string) (all []sentence, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name == "testdata" || path == filepath.Join(root, "results")):
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		var read func(file string, src []byte) ([]sentence, error)
		switch filepath.Ext(name) {
		case ".go":
			read = readGo
		case ".md":
			read = readMarkdown
		default:
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := read(path, src)
		all = append(all, found...)
		return err
	})
	if err == nil && len(all) == 0 {
		err = errors.New("no text found in " + root)
	}
	return all, err
}

// readGo returns the sentences in a file's comments and error messages.
func readGo(file string, src []byte) (found []sentence, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	for _, group := range parsed.Comments {
		text := group.Text() // without markers and directives
		found = append(found, split(comment, file, files.Position(group.Pos()).Line, paragraphs(text))...)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !createsError(call) {
			return true
		}
		if text, ok := literal(call.Args[0]); ok {
			found = append(found, split(message, file, files.Position(call.Pos()).Line, []paragraph{{text: text}})...)
		}
		return true
	})
	return found, nil
}

// createsError reports whether a call is to errors.New or fmt.Errorf.
func createsError(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	from, ok := f.X.(*ast.Ident)
	return ok && (from.Name == "errors" && f.Sel.Name == "New" || from.Name == "fmt" && f.Sel.Name == "Errorf")
}

// literal returns the value of a string literal, or of a concatenation of string literals.
func literal(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := literal(e.X)
		right, also := literal(e.Y)
		return left + right, ok && also
	}
	return "", false
}

// readMarkdown returns the sentences on a page. Each table cell is a paragraph.
func readMarkdown(file string, src []byte) ([]sentence, error) {
	text := link.ReplaceAllString(fence.ReplaceAllStringFunc(string(src), blank), "$1")
	return split(markdown, file, 1, paragraphs(strings.ReplaceAll(text, "**", ""))), nil
}

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	link  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// blank returns only the line breaks of a text.
func blank(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }

type paragraph struct {
	line int // relative to the line of the text
	text string
}

// item matches the beginning of a list item.
var item = regexp.MustCompile(`^\s*(?:[-*+•]|\d+[.)])\s+`)

// paragraphs splits a text at empty lines, list items, headings, code blocks and table cells.
func paragraphs(text string) (found []paragraph) {
	open := false
	for n, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "<"), !open && indented(line):
			open = false
		case strings.HasPrefix(trimmed, "|"):
			open = false
			for cell := range strings.SplitSeq(strings.Trim(trimmed, "|"), "|") {
				found = append(found, paragraph{n, strings.TrimSpace(cell)})
			}
		case !open, item.MatchString(line):
			open = true
			found = append(found, paragraph{n, item.ReplaceAllString(strings.TrimLeft(trimmed, "> "), "")})
		default:
			found[len(found)-1].text += " " + strings.TrimLeft(trimmed, "> ")
		}
	}
	return found
}

// indented reports whether a line belongs to a code block.
func indented(line string) bool {
	return strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "    ")
}

var (
	end  = regexp.MustCompile("[.!?][\"')\\]`]*\\s+")
	word = regexp.MustCompile(`[A-Za-z]{2,}|\ba\b`)
)

// minWords is the minimum length of a sentence; shorter ones are ignored.
const minWords = 4

// split splits paragraphs into sentences.
func split(k kind, file string, line int, from []paragraph) (found []sentence) {
	for _, p := range from {
		rest := p.text
		for rest != "" {
			text := rest
			if at := sentenceEnd(rest); at > 0 {
				text = rest[:at]
			}
			rest = rest[len(text):]
			if text = strings.TrimSpace(text); len(word.FindAllString(text, minWords)) == minWords {
				found = append(found, sentence{k, file, line + p.line, text})
			}
		}
	}
	return found
}

// sentenceEnd returns where the second sentence in a text starts, or 0.
func sentenceEnd(text string) int {
	for _, at := range end.FindAllStringIndex(text, -1) {
		next := strings.TrimLeft(text[at[1]:], "\"'(`[*")
		before := text[:at[0]+1]
		if next != "" && (next[0] >= 'A' && next[0] <= 'Z' || next[0] >= '0' && next[0] <= '9') && !strings.HasSuffix(before, "e.g.") && !strings.HasSuffix(before, "i.e.") {
			return at[1]
		}
	}
	return 0
}
