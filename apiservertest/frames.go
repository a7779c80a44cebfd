package apiservertest

import (
	"bytes"
	"encoding/binary"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sendFrame queues one event, or what the fault plan makes of it.
func (w *watcher) sendFrame(kind watch.EventType, body []byte) error {
	n := w.frames
	w.frames++
	w.server.stats.event(w.call, kind)
	at := len(w.buffer)
	if n == w.faults.wrongTypeAt {
		body = wrongType(w.format)
	}
	if n == w.faults.oversizeAt {
		w.buffer = appendOversized(w.buffer, w.format, kind, w.faults.oversize)
	} else {
		w.buffer = appendFrame(w.buffer, w.format, kind, body)
	}
	frame := w.buffer[at:]
	if n == w.faults.garbleAt {
		garble(frame, w.format)
	}
	if w.faults.duplicateEvery > 0 && (n+1)%w.faults.duplicateEvery == 0 {
		w.buffer = append(w.buffer, frame...)
	}
	if n == w.faults.endAt {
		w.buffer = w.buffer[:at+len(frame)/2]
		return w.last()
	}
	w.injectRaw()
	if n+1 == w.faults.errorAt {
		return w.faultError()
	}
	if n+1 == w.faults.silentAt {
		if err := w.flushed(); err != nil {
			return err
		}
		return w.hang()
	}
	if len(w.buffer) >= flushEvery {
		return w.flushed()
	}
	return nil
}

// injectRaw queues the bytes that the fault plan wants after the frames so far.
func (w *watcher) injectRaw() {
	for _, raw := range w.faults.raws {
		if raw.AfterFrames == w.frames {
			w.buffer = append(w.buffer, raw.Bytes...)
		}
	}
}

// last sends what is queued and ends the watch in the orderly way.
func (w *watcher) last() error {
	if err := w.flushed(); err != nil {
		return err
	}
	return errWatchOver
}

// faultError sends the ERROR event that the fault plan wants.
func (w *watcher) faultError() error {
	body, err := encodeStatus(w.faults.errorStatus, w.format)
	if err != nil {
		return err
	}
	w.server.stats.event(w.call, watch.Error)
	w.buffer = appendFrame(w.buffer, w.format, watch.Error, body)
	return w.last()
}

// spoilItems does to the items of a list what the fault plan wants.
func (p *plan) spoilItems(f format, items []listItem) []listItem {
	spoil := func(n int, change func(item *listItem)) {
		if n >= 0 && n < len(items) {
			change(&items[n])
		}
	}
	spoil(p.wrongTypeAt, func(item *listItem) {
		body := wrongType(f)
		if f.proto() { // the items of a protobuf list do not carry their kind
			body = []byte{0x0a, 0x03, 0x0a, 0x7f, 'x'}
		}
		*item = listItem{body: body}
	})
	spoil(p.oversizeAt, func(item *listItem) { *item = listItem{body: oversized(f, p.oversize)} })
	spoil(p.garbleAt, func(item *listItem) {
		item.body = bytes.Clone(item.body)
		garble(item.body, f)
	})
	if p.duplicateEvery > 0 {
		var doubled []listItem
		for i, item := range items {
			doubled = append(doubled, item)
			if (i+1)%p.duplicateEvery == 0 {
				doubled = append(doubled, item)
			}
		}
		items = doubled
	}
	return items
}

// garble flips bytes in the middle of a frame, so that neither its length nor
// its end changes but its meaning is gone: JSON loses its quotes and colons,
// and gets a byte that no JSON may hold, since what lost only quotes may by
// chance be another object; protobuf loses the tags and lengths of its first
// fields, CBOR its beginning.
func garble(frame []byte, f format) {
	if f.cbor() {
		frame[len(frame)-len(bytes.TrimPrefix(frame, cborMagic))] = cborReserved
		return
	}
	if f.proto() {
		// The length prefix stays, so that the stream itself is intact.
		for i := min(5, len(frame)); i < min(40, len(frame)); i++ {
			frame[i] ^= 0x5a
		}
		return
	}
	for i := len(frame) / 3; i < len(frame)*2/3; i++ {
		if frame[i] == '"' || frame[i] == ':' {
			frame[i] = '?'
		}
	}
	frame[len(frame)/2] = 0x01
}

// wrongType is an object that nobody has asked for.
func wrongType(f format) []byte {
	gvk := corev1.SchemeGroupVersion.WithKind("ComponentStatus")
	obj := &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "unexpected", ResourceVersion: "1"}}
	if f.proto() {
		body, _, err := protoBody(gvk, obj)
		if err != nil {
			panic(err) // a constant object of a generated type always encodes
		}
		return body
	}
	if f.cbor() {
		body, _, err := cborBody(gvk, obj, false)
		if err != nil {
			panic(err) // a constant object encodes
		}
		return body
	}
	return []byte(`{"kind":"ComponentStatus","apiVersion":"v1","metadata":{"name":"unexpected","resourceVersion":"1"}}`)
}

// oversized is an object of about size bytes: well-formed JSON or CBOR, or
// protobuf that is one long unknown field.
func oversized(f format, size int) []byte {
	if f.proto() {
		return appendField(nil, 100, make([]byte, size))
	}
	if f.cbor() {
		return oversizedCBOR(size)
	}
	return []byte(`{"kind":"Huge","apiVersion":"v1","metadata":{"annotations":{"huge":"` + strings.Repeat("x", size) + `"}}}`)
}

// appendOversized appends a frame whose object has size bytes.
func appendOversized(dst []byte, f format, kind watch.EventType, size int) []byte {
	if !f.proto() {
		return appendFrame(dst, f, kind, oversized(f, size))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	return append(dst, make([]byte, size)...)
}
