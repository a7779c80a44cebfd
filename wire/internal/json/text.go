package json

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
)

// eachHigh is a word in which all eight bytes have the high bit set.
const eachHigh = 0x8080808080808080

// isASCII reports whether text contains only ASCII.
func isASCII(text []byte) bool {
	for ; len(text) >= 8; text = text[8:] {
		if binary.LittleEndian.Uint64(text)&eachHigh != 0 {
			return false
		}
	}
	var all byte
	for _, c := range text {
		all |= c
	}
	return all < utf8.RuneSelf
}

// isSound reports whether text is valid UTF-8. The reference replaces invalid bytes.
func isSound(text []byte) bool { return isASCII(text) || utf8.Valid(text) }

// unescape appends a JSON string's text to dst. text is the part between the quotes. It fails on invalid
// escapes and unpaired surrogates.
func unescape(dst, text []byte) ([]byte, error) {
	if !isSound(text) {
		return nil, fault.ErrUnusual
	}
	for {
		n := frame.TextEnd(text, 0)
		dst = append(dst, text[:n]...)
		if n == len(text) {
			return dst, nil
		}
		if text[n] != '\\' || n+1 == len(text) {
			return nil, fault.ErrUnusual
		}
		c := text[n+1]
		text = text[n+2:]
		if c != 'u' {
			if c = escapes[c]; c == 0 {
				return nil, fault.ErrUnusual
			}
			dst = append(dst, c)
			continue
		}
		r, ok := hexRune(text)
		if !ok {
			return nil, fault.ErrUnusual
		}
		text = text[4:]
		if utf16.IsSurrogate(r) {
			if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
				return nil, fault.ErrUnusual
			}
			low, ok := hexRune(text[2:])
			if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
				return nil, fault.ErrUnusual
			}
			text = text[6:]
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// escapes maps the byte after a backslash to its meaning.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// hexRune parses the four hex digits at the start of text.
func hexRune(text []byte) (r rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range text[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
