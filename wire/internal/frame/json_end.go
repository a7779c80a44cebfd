package frame

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at a time: a word that has one of these in each byte.
const (
	eachOne   = 0x0101010101010101
	eachTop   = 0x80 * eachOne
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
	return ((swapped-'!'*eachOne)&^swapped | (slash-eachOne)&^slash) & eachTop
}

// TextEnd returns where in b, from n on, the first quote, backslash or control
// character is, or len(b).
func TextEnd(b []byte, n int) int {
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

// EndsScalar has the bytes that cannot be a part of a number, true, false or
// null, and follow one.
var EndsScalar = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ':': true, ']': true, '}': true, '[': true, '{': true, '"': true}
