package apiservertest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// flushEvery is the number of bytes to buffer before sending a chunk of a list. It is a few times
	// as large as net/http's own buffer, but small compared with a list.
	flushEvery = 32 << 10

	// gzipFrom is the minimum size of a response that a real server compresses.
	gzipFrom = 128 << 10
)

// sendList sends a list item by item.
func (c *call) sendList(p page) error {
	frames := make([]listItem, 0, len(p.items))
	for _, v := range p.items {
		e, err := v.encode(c.format)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		frames = append(frames, listItem{e.lead, e.item})
	}
	frames = c.faults.spoilItems(c.format, frames)
	size := 0
	for _, item := range frames {
		size += len(item.lead) + len(item.body) + 1
	}
	head, tail, err := c.listFrame(listMeta{p.meta, p.shard}, frames)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	c.w.Header().Set("Content-Type", c.format.mediaType())
	if size < gzipFrom || !strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip") {
		c.w.WriteHeader(http.StatusOK)
		return c.writeList(c.w, c.w.flush, head, frames, tail)
	}
	c.w.Header().Set("Content-Encoding", "gzip")
	c.w.Header().Add("Vary", "Accept-Encoding")
	c.w.WriteHeader(http.StatusOK)
	zip := gzip.NewWriter(c.w)
	flush := func() error { return errors.Join(zip.Flush(), c.w.flush()) }
	if err := c.writeList(zip, flush, head, frames, tail); err != nil {
		return err
	}
	return zip.Close()
}

// writeList writes a list body in chunks.
func (c *call) writeList(out io.Writer, flush func() error, head []byte, items []listItem, tail []byte) error {
	chunk := bytes.NewBuffer(head)
	for i, item := range items {
		if i == c.faults.silentAt {
			if err := writeChunk(out, flush, chunk); err != nil {
				return err
			}
			return c.hang()
		}
		chunk.Write(appendItem(chunk.AvailableBuffer(), c.format, i, item))
		if chunk.Len() >= flushEvery {
			if err := writeChunk(out, flush, chunk); err != nil {
				return err
			}
		}
		if i == c.faults.endAt {
			chunk.Truncate(chunk.Len() - len(item.body)/2)
			_, err := out.Write(chunk.Bytes())
			return err
		}
	}
	chunk.Write(tail)
	_, err := out.Write(chunk.Bytes())
	return err
}

func writeChunk(out io.Writer, flush func() error, chunk *bytes.Buffer) error {
	if _, err := out.Write(chunk.Bytes()); err != nil {
		return err
	}
	chunk.Reset()
	return flush()
}

// listItem is one item of a list body.
type listItem struct {
	lead string
	body []byte
}

// appendItem appends the i-th item of a list.
func appendItem(dst []byte, f format, i int, item listItem) []byte {
	if f.proto() {
		return appendField(dst, 2, item.body)
	}
	if i > 0 && !f.cbor() {
		dst = append(dst, ',')
	}
	dst = append(dst, item.lead...)
	return append(dst, item.body...)
}

// listBody returns a whole list as one body.
func listBody(f format, head []byte, items []listItem, tail []byte) []byte {
	body := head
	for i, item := range items {
		body = appendItem(body, f, i, item)
	}
	return append(body, tail...)
}

// listFrame returns the parts of the list before and after the items.
func (c *call) listFrame(meta listMeta, items []listItem) (head, tail []byte, err error) {
	gvk := c.coll.GroupVersion().WithKind(c.coll.ListKind)
	if c.format.meta() {
		gvk = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	if c.format.cbor() {
		return cborListFrame(gvk, meta, len(items))
	}
	if !c.format.proto() {
		metadata, err := json.Marshal(meta)
		if err != nil {
			return nil, nil, err
		}
		if c.coll.untyped() && !c.format.meta() { // fields are in alphabetical order
			head = fmt.Appendf(nil, `{"apiVersion":%q,"items":[`, gvk.GroupVersion().String())
			return head, fmt.Appendf(nil, "],\"kind\":%q,\"metadata\":%s}\n", gvk.Kind, metadata), nil
		}
		head = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`,
			gvk.Kind, gvk.GroupVersion().String(), metadata)
		return head, []byte("]}\n"), nil
	}
	metadata, err := meta.Marshal()
	if err != nil {
		return nil, nil, err
	}
	metadata = appendShardInfo(metadata, meta.ShardInfo)
	size := tagSize(1, len(metadata)) + len(metadata)
	for _, item := range items {
		size += tagSize(2, len(item.body)) + len(item.body)
	}
	if head, err = protoHead(gvk, size); err != nil {
		return nil, nil, err
	}
	return appendField(head, 1, metadata), protoTail, nil
}
