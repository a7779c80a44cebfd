// Package printable prevents untrusted text from controlling a terminal.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Control reports whether a character can control a terminal, or change the order of the text after it.
// Such characters are C0 (including tab and line feed), DEL, C1, and bidirectional formatting
// characters.
func Control(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// JSON returns JSON with all such characters in strings escaped and invalid UTF-8 replaced by the
// replacement character. The result is equivalent JSON, and may share memory with text.
func JSON(text []byte) []byte {
	clean := true
	for n := 0; n < len(text) && clean; n++ {
		clean = text[n] < utf8.RuneSelf && text[n] != 0x7f
	}
	if clean {
		return text
	}
	var b bytes.Buffer
	b.Grow(len(text) + 16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\ufffd`)
		case r < ' ' || !Control(r): // characters below a space only occur between strings
			b.Write(text[:size])
		default:
			fmt.Fprintf(&b, `\u%04x`, r) // there are no such characters above U+FFFF
		}
		text = text[size:]
	}
	return b.Bytes()
}

// Writer writes text with control characters replaced by spaces, except tabs and line feeds. A
// character split between two writes is treated as invalid.
type Writer struct{ To io.Writer }

func (w Writer) Write(text []byte) (int, error) {
	clean := bytes.Map(func(r rune) rune {
		if Control(r) && r != '\t' && r != '\n' {
			return ' '
		}
		return r // invalid UTF-8 yields RuneError
	}, text)
	if _, err := w.To.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
