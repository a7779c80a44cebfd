package main

import (
	"maps"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// requests counts the requests to the API server.
type requests struct {
	mu    sync.Mutex
	count map[string]int // by verb and resource
}

// wrap returns a transport that counts requests.
func (r *requests) wrap(next http.RoundTripper) http.RoundTripper { return &counting{r, next} }

func (r *requests) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

type counting struct {
	to   *requests
	next http.RoundTripper
}

// resolver parses the verb and the resource of a request as the API server does.
var resolver = request.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

// RoundTrip implements http.RoundTripper.
func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	name := "get other paths"
	if info, err := resolver.NewRequestInfo(req); err == nil && info.IsResourceRequest {
		name = info.Verb + " " + info.Resource
		if info.Subresource != "" {
			name += "/" + info.Subresource
		}
	}
	c.to.mu.Lock()
	if c.to.count == nil {
		c.to.count = make(map[string]int)
	}
	c.to.count[name]++
	c.to.mu.Unlock()
	return c.next.RoundTrip(req)
}
