package flight

import (
	"encoding/binary"
	"encoding/hex"
	"time"
	"unicode/utf8"
)

// A record is an encoded event: its length, time and kind, a bit set of the fields present, and those fields.

// header is the size of the fixed part of a record.
const header = 2 + 8 + 1 + 4 // length, moment, kind, fields

// Bits for a record's fields, in field order.
const (
	hasNamespace = 1 << iota
	hasName
	hasCluster
	hasAboutNamespace
	hasAboutName
	hasUID
	hasUUID // a UID in RFC 9562 format, as 16 bytes
	hasRV
	hasChange
	hasText
	hasOutcome
	hasAfter
	hasPosition
	hasCount
	hasBytes
	hasAttempt
	hasReceived
	hasDecoded
	hasQueued
	hasTook
	hasDrift
)

// writer appends fields to a record and sets their bits.
type writer struct {
	to     []byte
	fields uint32
}

func (w *writer) text(field uint32, s string, most int) {
	if s == "" {
		return
	}
	if len(s) > most {
		s = clip(s, most)
	}
	w.fields |= field
	w.to = binary.AppendUvarint(w.to, uint64(len(s)))
	w.to = append(w.to, s...)
}

// clip truncates s, which is longer than most bytes, to at most that length, without splitting a character.
func clip(s string, most int) string {
	for end := most; end > most-utf8.UTFMax; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:most] // not UTF-8
}

func (w *writer) number(field uint32, n uint64) {
	if n == 0 {
		return
	}
	w.fields |= field
	w.to = binary.AppendUvarint(w.to, n)
}

func (w *writer) duration(field uint32, d time.Duration) {
	if d == 0 {
		return
	}
	w.fields |= field
	w.to = binary.AppendVarint(w.to, int64(d))
}

func (w *writer) uid(s string) {
	var id [16]byte
	if !parseUUID(&id, s) {
		w.text(hasUID, s, maxWord)
		return
	}
	w.fields |= hasUUID
	w.to = append(w.to, id[:]...)
}

// moment is the time when an event happened.
type moment struct {
	wall  int64         // wall clock time, since 1970
	drift time.Duration // how far the wall clock has been adjusted since the recorder was created
}

// since converts at to a moment for a recorder created at began, which is zero if unknown.
func since(began, at time.Time) moment {
	if began.IsZero() {
		return moment{wall: at.UnixNano()}
	}
	wall := at.UnixNano()
	return moment{wall, time.Duration(wall-began.UnixNano()) - at.Sub(began)}
}

// order increases over time, even if the wall clock is set back.
func (m moment) order() int64 { return m.wall - int64(m.drift) }

// appendRecord appends e to b, which must be empty.
func appendRecord(b []byte, e *Event, at moment) []byte {
	w := writer{to: b[:header]}
	w.text(hasNamespace, e.Key.Namespace, maxName)
	w.text(hasName, e.Key.Name, maxName)
	w.text(hasCluster, e.Cluster, maxText)
	w.text(hasAboutNamespace, e.About.Namespace, maxName)
	w.text(hasAboutName, e.About.Name, maxName)
	if e.UID != "" {
		w.uid(e.UID)
	}
	w.text(hasRV, e.RV, maxWord)
	w.text(hasChange, e.Change, maxWord)
	w.text(hasText, e.Text, maxText)
	w.text(hasOutcome, e.Outcome, maxWord)
	w.number(hasAfter, e.After)
	w.number(hasPosition, e.Position)
	w.number(hasCount, uint64(max(e.Count, 0)))
	w.number(hasBytes, uint64(max(e.Bytes, 0)))
	w.number(hasAttempt, uint64(max(e.Attempt, 0)))
	w.duration(hasReceived, e.Received)
	w.duration(hasDecoded, e.Decoded)
	w.duration(hasQueued, e.Queued)
	w.duration(hasTook, e.Took)
	w.duration(hasDrift, at.drift)
	binary.LittleEndian.PutUint16(w.to, uint16(len(w.to)))
	binary.LittleEndian.PutUint64(w.to[2:], uint64(at.wall))
	w.to[10] = byte(e.Kind)
	binary.LittleEndian.PutUint32(w.to[11:], w.fields)
	return w.to
}

// reader reads fields from a record created by appendRecord.
type reader struct {
	from   []byte
	fields uint32
}

func (r *reader) text(field uint32) string {
	if r.fields&field == 0 {
		return ""
	}
	n, used := binary.Uvarint(r.from)
	s := string(r.from[used : used+int(n)])
	r.from = r.from[used+int(n):]
	return s
}

func (r *reader) number(field uint32) uint64 {
	if r.fields&field == 0 {
		return 0
	}
	n, used := binary.Uvarint(r.from)
	r.from = r.from[used:]
	return n
}

func (r *reader) duration(field uint32) time.Duration {
	if r.fields&field == 0 {
		return 0
	}
	n, used := binary.Varint(r.from)
	r.from = r.from[used:]
	return time.Duration(n)
}

func (r *reader) uid() string {
	if r.fields&hasUUID == 0 {
		return r.text(hasUID)
	}
	id := r.from[:16]
	r.from = r.from[16:]
	return formatUUID(id)
}

// readRecord reads the first record of b into e, and returns the rest.
func readRecord(b []byte, e *Entry) (rest []byte) {
	n := binary.LittleEndian.Uint16(b)
	r := reader{b[header:n], binary.LittleEndian.Uint32(b[11:])}
	at := moment{wall: int64(binary.LittleEndian.Uint64(b[2:]))}
	e.At = time.Unix(0, at.wall)
	e.Kind = Kind(b[10])
	e.Key.Namespace = r.text(hasNamespace)
	e.Key.Name = r.text(hasName)
	e.Cluster = r.text(hasCluster)
	e.About.Namespace = r.text(hasAboutNamespace)
	e.About.Name = r.text(hasAboutName)
	e.UID = r.uid()
	e.RV = r.text(hasRV)
	e.Change = r.text(hasChange)
	e.Text = r.text(hasText)
	e.Outcome = r.text(hasOutcome)
	e.After = r.number(hasAfter)
	e.Position = r.number(hasPosition)
	e.Count = int(r.number(hasCount))
	e.Bytes = int(r.number(hasBytes))
	e.Attempt = int(r.number(hasAttempt))
	e.Received = r.duration(hasReceived)
	e.Decoded = r.duration(hasDecoded)
	e.Queued = r.duration(hasQueued)
	e.Took = r.duration(hasTook)
	at.drift = r.duration(hasDrift)
	e.order = at.order()
	return b[n:]
}

// groups are the start and end offsets of the hexadecimal groups in a UUID's text.
var groups = [...][2]int{{0, 8}, {9, 13}, {14, 18}, {19, 23}, {24, 36}}

// parseUUID parses a UUID in lower case, as API servers write it. It returns false for any text that
// formatUUID would not reproduce.
func parseUUID(id *[16]byte, s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	at := 0
	for _, g := range groups {
		for i := g[0]; i < g[1]; i += 2 {
			high, low := nibbles[s[i]], nibbles[s[i+1]]
			if high|low > 15 {
				return false
			}
			id[at] = high<<4 | low
			at++
		}
	}
	return true
}

func formatUUID(id []byte) string {
	var s [36]byte
	at := 0
	for i, g := range groups {
		if i > 0 {
			s[g[0]-1] = '-'
		}
		n := (g[1] - g[0]) / 2
		hex.Encode(s[g[0]:g[1]], id[at:at+n])
		at += n
	}
	return string(s[:])
}

// nibbles maps lower-case hexadecimal digits to their values, and everything else to 16.
var nibbles = func() (values [256]byte) {
	for i := range values {
		values[i] = 16
	}
	for i, c := range []byte("0123456789abcdef") {
		values[c] = byte(i)
	}
	return values
}()
