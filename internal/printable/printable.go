// Package printable keeps what others say from steering a terminal.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Control reports whether a terminal may obey a character, or show those behind it in another
// order: C0 with tab and line feed, DEL, C1, and marks of writing direction.
func Control(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// JSON returns JSON text in which all such characters inside of texts are escaped, and what is
// no UTF-8 is the replacement character. It means the same. The text may be changed.
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
		case r < ' ' || !Control(r): // those below a space stand between texts: JSON has none in them
			b.Write(text[:size])
		default:
			fmt.Fprintf(&b, `\u%04x`, r) // none is beyond U+FFFF
		}
		text = text[size:]
	}
	return b.Bytes()
}

// Writer writes text for people: control characters become spaces, but for tabs and line
// feeds. A character that two writes divide is none.
type Writer struct{ To io.Writer }

// Write implements io.Writer.
func (w Writer) Write(text []byte) (int, error) {
	clean := bytes.Map(func(r rune) rune {
		if Control(r) && r != '\t' && r != '\n' {
			return ' '
		}
		return r // a byte that is no UTF-8 is RuneError
	}, text)
	if _, err := w.To.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
