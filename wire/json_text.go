package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// Eight bytes at a time: a word that has one of these in each byte.
const (
	eachOne   = 0x0101010101010101
	eachHigh  = 0x80 * eachOne
	eachSlash = '\\' * eachOne
)

// textStops returns a word in which the high bit of the lowest byte that is a
// quote, a backslash or a control character is set, and none below it. Nothing
// is set where there is no such byte.
func textStops(word uint64) uint64 {
	// Exchanging '"' and ' ', and '!' and '#', puts the quote beside the control
	// characters: all below '!' are stops then.
	swapped := word ^ 2*eachOne
	slash := word ^ eachSlash
	return ((swapped-'!'*eachOne)&^swapped | (slash-eachOne)&^slash) & eachHigh
}

// textEnd returns where in b, from n on, the first quote, backslash or control
// character is, or len(b).
func textEnd(b []byte, n int) int {
	for ; n+8 <= len(b); n += 8 {
		if stops := textStops(binary.LittleEndian.Uint64(b[n:])); stops != 0 {
			return n + bits.TrailingZeros64(stops)/8
		}
	}
	for n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' ' {
		n++
	}
	return n
}

// isASCII reports whether all of text is.
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

// isSound reports whether text is valid UTF-8. The reference replaces what is
// not.
func isSound(text []byte) bool { return isASCII(text) || utf8.Valid(text) }

// unescape appends to dst what text, the inside of a JSON string, stands for.
// Of escapes that are not valid, or halves of surrogate pairs, it makes nothing.
func unescape(dst, text []byte) ([]byte, error) {
	if !isSound(text) {
		return nil, fault.ErrUnusual
	}
	for {
		n := textEnd(text, 0)
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

// escapes is what a byte after a backslash stands for.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// hexRune reads the four digits at the beginning of text.
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
