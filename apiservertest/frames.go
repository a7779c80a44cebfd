package apiservertest

import (
	"bytes"
	"encoding/binary"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sendFrame applies the fault plan to one event and queues it.
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

// injectRaw queues the bytes that the fault plan inserts at this point in the stream.
func (w *watcher) injectRaw() {
	for _, raw := range w.faults.raws {
		if raw.AfterFrames == w.frames {
			w.buffer = append(w.buffer, raw.Bytes...)
		}
	}
}

// last sends the queue and ends the watch normally.
func (w *watcher) last() error {
	if err := w.flushed(); err != nil {
		return err
	}
	return errWatchOver
}

// faultError sends the fault plan's ERROR event.
func (w *watcher) faultError() error {
	body, err := encodeStatus(w.faults.errorStatus, w.format)
	if err != nil {
		return err
	}
	w.server.stats.event(w.call, watch.Error)
	w.buffer = appendFrame(w.buffer, w.format, watch.Error, body)
	return w.last()
}

// spoilItems applies the fault plan to list items.
func (p *plan) spoilItems(f format, items []listItem) []listItem {
	spoil := func(n int, change func(item *listItem)) {
		if n >= 0 && n < len(items) {
			change(&items[n])
		}
	}
	spoil(p.wrongTypeAt, func(item *listItem) {
		body := wrongType(f)
		if f.proto() { // protobuf list items have no kind
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

// garble makes a frame undecodable but preserves its length and its end. In JSON it overwrites quotes and
// colons and inserts an invalid byte, since JSON that merely lacks some quotes might happen to be another
// valid object. In protobuf it overwrites the tags and lengths of the first fields, in CBOR the first byte.
func garble(frame []byte, f format) {
	if f.cbor() {
		frame[len(frame)-len(bytes.TrimPrefix(frame, cborMagic))] = cborReserved
		return
	}
	if f.proto() {
		// Keep the length prefix so that the stream itself remains intact.
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

// wrongType returns an object of an unexpected type.
func wrongType(f format) []byte {
	gvk := corev1.SchemeGroupVersion.WithKind("ComponentStatus")
	obj := &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "unexpected", ResourceVersion: "1"}}
	if f.proto() {
		body, _, err := protoBody(gvk, obj)
		if err != nil {
			panic(err) // cannot fail for a constant object
		}
		return body
	}
	if f.cbor() {
		body, _, err := cborBody(gvk, obj, false)
		if err != nil {
			panic(err) // cannot fail for a constant object
		}
		return body
	}
	return []byte(`{"kind":"ComponentStatus","apiVersion":"v1","metadata":{"name":"unexpected","resourceVersion":"1"}}`)
}

// oversized returns an object of about size bytes: valid JSON or CBOR, or protobuf with one long
// unknown field.
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
