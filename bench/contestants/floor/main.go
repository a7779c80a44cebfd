// Command floor gives informer-bench its lower bound: it reads the same bytes as the other contestants and
// discards them.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/internal/objects"
)

func main() {
	scenarios := map[string]protocol.Work{}
	for _, name := range scenario.Following() {
		scenarios[name] = read
	}
	protocol.Main(scenarios)
}

// read reads a list, followed by a watch if there are events.
func read(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	path, accept := "/api/v1/pods", "application/vnd.kubernetes.protobuf"
	if s.Params.On(scenario.Custom) {
		path, accept = "/apis/"+objects.WidgetVersion().String()+"/"+objects.WidgetPlural, "application/json"
	}
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	streaming := s.Params.On(scenario.WatchList)
	if !streaming {
		body, err := get(ctx, s.URL+path, accept)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		if _, err := io.Copy(io.Discard, body); err != nil {
			return nil, err
		}
	}
	query := fmt.Sprintf("?watch=1&allowWatchBookmarks=true&resourceVersion=%d", s.Params[scenario.From])
	if streaming {
		query = "?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	}
	body, err := get(ctx, s.URL+path+query, accept+";stream=watch")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	frames := framesOf(body, accept)
	if streaming {
		if err := frames.skip(s.Objects + 1); err != nil {
			return nil, err
		}
	}
	if err := s.Mark(protocol.MarkSynced); err != nil {
		return nil, err
	}
	if s.Until > 0 {
		if err := frames.skip(s.Params[scenario.Events]); err != nil {
			return nil, err
		}
		if err := s.Mark(protocol.MarkDone); err != nil {
			return nil, err
		}
	}
	return &protocol.Result{Live: s.Live()}, nil
}

func get(ctx context.Context, url, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return resp.Body, nil
}

// frames iterates over a watch's events without parsing them.
type frames struct {
	body   io.Reader
	json   bool
	buffer []byte
	head   []byte // an incomplete length
	left   int    // unread bytes of the current frame
	unread []byte
}

func framesOf(body io.Reader, accept string) *frames {
	return &frames{body: body, json: strings.HasSuffix(accept, "json"), buffer: make([]byte, 64<<10)}
}

// skip reads n frames.
func (f *frames) skip(n int) error {
	for n > 0 {
		if len(f.unread) == 0 {
			count, err := f.body.Read(f.buffer)
			f.unread = f.buffer[:count]
			if count == 0 && err != nil {
				return errors.Join(fmt.Errorf("%d frames are missing", n), err)
			}
		}
		if f.json {
			n -= f.line()
		} else {
			n -= f.prefixed()
		}
	}
	return nil
}

// line reads to the end of a line or of the buffer.
func (f *frames) line() int {
	at := bytes.IndexByte(f.unread, '\n')
	if at < 0 {
		f.unread = nil
		return 0
	}
	f.unread = f.unread[at+1:]
	return 1
}

// prefixed reads to the end of a length-prefixed frame or of the buffer.
func (f *frames) prefixed() int {
	if f.left == 0 {
		take := min(4-len(f.head), len(f.unread))
		f.head, f.unread = append(f.head, f.unread[:take]...), f.unread[take:]
		if len(f.head) < 4 {
			return 0
		}
		f.left, f.head = int(binary.BigEndian.Uint32(f.head)), f.head[:0]
	}
	take := min(f.left, len(f.unread))
	f.left, f.unread = f.left-take, f.unread[take:]
	if f.left > 0 {
		return 0
	}
	return 1
}
