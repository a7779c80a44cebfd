// Command unmarshal reads a list of Pods for informer-bench, decodes each with the generated Unmarshal method
// from k8s.io/api, and keeps only the Pods. No cache that decodes whole objects this way can be faster.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

func main() { protocol.Main(map[string]protocol.Work{"sync-protobuf": list}) }

func list(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/pods", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", req.URL, resp.Status)
	}
	pods, err := podsOf(bufio.NewReaderSize(resp.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", req.URL, err)
	}
	if err := s.Mark(protocol.MarkSynced); err != nil {
		return nil, err
	}
	r := &protocol.Result{Live: s.Live(), Objects: len(pods)}
	for _, p := range pods {
		r.Digest.Add(p)
	}
	return r, nil
}

// The fields of the two messages are all length-delimited. runtime.Unknown contains the list in raw, and the
// list contains one item per items field. Both fields have the same tag, so the first occurrence is raw.
const (
	magic       = "k8s\x00"
	rawOrItems  = 2<<3 | 2
	wireType    = 7
	lengthDelim = 2
)

// podsOf decodes the Pods in a list as it arrives.
func podsOf(body *bufio.Reader) ([]*corev1.Pod, error) {
	if _, err := body.Discard(len(magic)); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	var item []byte
	for inside := false; ; {
		tag, err := binary.ReadUvarint(body)
		if err == io.EOF {
			return pods, nil
		}
		if err != nil {
			return nil, err
		}
		if tag&wireType != lengthDelim {
			return nil, fmt.Errorf("unexpected field with tag %d", tag)
		}
		size, err := binary.ReadUvarint(body)
		if err != nil {
			return nil, err
		}
		switch {
		case tag == rawOrItems && !inside:
			inside = true
			continue
		case tag != rawOrItems:
			if _, err := body.Discard(int(size)); err != nil {
				return nil, err
			}
			continue
		}
		if uint64(cap(item)) < size {
			item = make([]byte, size)
		}
		item = item[:size]
		if _, err := io.ReadFull(body, item); err != nil {
			return nil, err
		}
		p := new(corev1.Pod)
		if err := p.Unmarshal(item); err != nil { // copies anything it keeps from item
			return nil, err
		}
		pods = append(pods, p)
	}
}
