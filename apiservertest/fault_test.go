package apiservertest_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
)

// faulty calls body with a server that has three pods and one fault.
func faulty(t *testing.T, verb string, action apiservertest.Action, body func(t *testing.T, r *rig)) {
	t.Helper()
	inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
		r.create(pod("default", "a"), pod("default", "b"), pod("default", "c"))
		r.Faults().Add(apiservertest.Fault{Name: "it", Verb: verb, Resource: "pods", Count: 1, Do: []apiservertest.Action{action}})
		body(t, r)
	})
}

const watchAll = "/api/v1/pods?watch=1&timeoutSeconds=1"

func TestFaultFail(t *testing.T) {
	faulty(t, "list", apiservertest.Fail{Code: 429, RetryAfter: "7"}, func(t *testing.T, r *rig) {
		r.Faults().Add(apiservertest.Fault{Verb: "list", Count: 1, Do: []apiservertest.Action{apiservertest.Delay{For: time.Minute}}})
		start := time.Now()
		code, raw, header := r.do("GET", "/api/v1/pods", "")
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, 429, code)
		require.Equal(t, "7", header.Get("Retry-After"))
		require.Contains(t, string(raw), "TooManyRequests")
		require.Len(t, r.list("/api/v1/pods").Items, 3, "only once")
		require.Equal(t, map[string]int{"it": 1, "Delay": 1}, r.Stats().Faults())
		require.Equal(t, 1, r.Stats().Answers("list", "pods", 429))
		require.Equal(t, 2, r.Stats().Requests("list", "pods"))
	})
}

func TestFaultCut(t *testing.T) {
	faulty(t, "list", apiservertest.Cut{AfterBytes: 300}, func(t *testing.T, r *rig) {
		resp := r.open("GET", "/api/v1/pods", "")
		raw, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Len(t, raw, 300)
	})
	faulty(t, "list", apiservertest.Cut{}, func(t *testing.T, r *rig) {
		resp, err := r.client.Get(r.url + "/api/v1/pods")
		if err == nil {
			resp.Body.Close()
		}
		require.Error(t, err)
		require.Equal(t, 1, r.Stats().Answers("list", "pods", 0))
		code, _, _ := r.do("POST", "/api/v1/namespaces/default/pods", "{}")
		require.Equal(t, 422, code, "another verb")
	})
}

func TestFaultFrames(t *testing.T) {
	cases := map[string]struct {
		action apiservertest.Action
		want   string
		broken bool
	}{
		"garbled":      {apiservertest.Garble{Frame: 1}, "ADDED a@101", true},
		"truncated":    {apiservertest.Truncate{Frame: 1}, "ADDED a@101", true},
		"wrong type":   {apiservertest.WrongType{Frame: 1}, "ADDED a@101 ADDED unexpected@1 ADDED c@103", false},
		"oversized":    {apiservertest.Oversize{Frame: 2, Size: 1 << 20}, "ADDED a@101 ADDED b@102 ADDED @", false},
		"duplicated":   {apiservertest.Duplicate{Every: 2}, "ADDED a@101 ADDED b@102 ADDED b@102 ADDED c@103", false},
		"raw at once":  {apiservertest.Raw{Bytes: []byte(`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Raw","metadata":{"name":"x","resourceVersion":"7"}}}` + "\n")}, "ADDED x@7 ADDED a@101 ADDED b@102 ADDED c@103", false},
		"raw":          {apiservertest.Raw{AfterFrames: 2, Bytes: []byte(`{"type":"ODD","object":{"apiVersion":"v1","kind":"Raw","metadata":{"name":"x","resourceVersion":"7"}}}` + "\n")}, "ADDED a@101 ADDED b@102 ODD x@7 ADDED c@103", false},
		"raw nonsense": {apiservertest.Raw{AfterFrames: 1, Bytes: []byte("<html>")}, "ADDED a@101", true},
		"error at once": {apiservertest.ErrorEvent{Status: metav1.Status{Code: 500, Reason: "Odd", Message: "m"}},
			"ERROR 500 Odd: m", false},
		"error": {apiservertest.ErrorEvent{AfterFrames: 2, Status: metav1.Status{Code: 500, Reason: "Odd", Message: "m"}},
			"ADDED a@101 ADDED b@102 ERROR 500 Odd: m", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			faulty(t, "watch", tc.action, func(t *testing.T, r *rig) {
				events, err := r.watch(watchAll).rest()
				require.Equal(t, tc.want, strings.Join(events, " "))
				if tc.broken {
					var syntax *json.SyntaxError
					require.ErrorAs(t, err, &syntax)
				} else {
					require.NoError(t, err)
				}
				events, err = r.watch(watchAll).rest()
				require.NoError(t, err)
				require.Len(t, events, 3, "only once")
			})
		})
	}
}

func TestFaultAnswer(t *testing.T) {
	faulty(t, "list", apiservertest.Answer{Body: []byte(`{"kind":"Other"}`)}, func(t *testing.T, r *rig) {
		code, raw, header := r.do("GET", "/api/v1/pods", "")
		require.Equal(t, 200, code)
		require.Equal(t, `{"kind":"Other"}`, string(raw))
		require.Equal(t, "application/json", header.Get("Content-Type"))
		require.Len(t, r.list("/api/v1/pods").Items, 3, "only once")
	})
	faulty(t, "create", apiservertest.Answer{Code: 299}, func(t *testing.T, r *rig) {
		code, raw, _ := r.do("POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"d"}}`)
		require.Equal(t, 299, code)
		require.Empty(t, raw)
		require.Len(t, r.list("/api/v1/pods").Items, 3, "the server has not seen it")
	})
}

func TestFaultHeader(t *testing.T) {
	faulty(t, "list", apiservertest.Header{Name: "warning", Values: []string{`299 - "a"`, `299 - "b"`}}, func(t *testing.T, r *rig) {
		r.Faults().Add(apiservertest.Fault{Verb: "list", Count: 1, Do: []apiservertest.Action{
			apiservertest.Header{Name: "Content-Type"}, apiservertest.Header{Name: "Cache-Control", Values: []string{"public"}},
		}})
		code, raw, header := r.do("GET", "/api/v1/pods", "")
		require.Equal(t, 200, code)
		require.Contains(t, string(raw), "PodList")
		require.Equal(t, []string{`299 - "a"`, `299 - "b"`}, header.Values("Warning"))
		require.Equal(t, []string{"public"}, header.Values("Cache-Control"))
		require.NotContains(t, header, "Content-Type")
		_, _, header = r.do("GET", "/api/v1/pods", "")
		require.Equal(t, "application/json", header.Get("Content-Type"), "only once")
		require.Empty(t, header.Values("Warning"))
	})
}

func TestFaultListItems(t *testing.T) {
	for name, action := range map[string]apiservertest.Action{
		"garbled": apiservertest.Garble{Frame: 1}, "truncated": apiservertest.Truncate{Frame: 1},
	} {
		t.Run(name, func(t *testing.T) {
			faulty(t, "list", action, func(t *testing.T, r *rig) {
				_, raw, _ := r.do("GET", "/api/v1/pods", "")
				require.False(t, json.Valid(raw), "%s", raw)
				_, raw, _ = r.do("GET", "/api/v1/pods", "")
				require.True(t, json.Valid(raw))
			})
		})
	}
	faulty(t, "list", apiservertest.WrongType{Frame: 1}, func(t *testing.T, r *rig) {
		require.Equal(t, "ComponentStatus", r.list("/api/v1/pods").Items[1].Kind)
	})
	faulty(t, "list", apiservertest.Silence{AfterFrames: 2}, func(t *testing.T, r *rig) {
		resp := r.open("GET", "/api/v1/pods", "")
		time.AfterFunc(time.Hour, r.Close)
		raw, err := io.ReadAll(resp.Body)
		require.Error(t, err)
		require.Contains(t, string(raw), `"name":"b"`)
		require.NotContains(t, string(raw), `"name":"c"`)
	})
}

func TestFaultBookmarks(t *testing.T) {
	opts := apiservertest.Options{BookmarkPeriod: 40 * time.Second}
	const query = "/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion=100"
	for name, tc := range map[string]struct {
		action apiservertest.Action
		want   int
	}{
		"none":     {apiservertest.NoBookmarks{}, 0},
		"repeated": {apiservertest.RepeatBookmarks{Times: 2}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, opts, func(t *testing.T, r *rig) {
				r.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{tc.action}})
				events, err := r.watch(query).rest()
				require.NoError(t, err)
				require.Len(t, events, tc.want)
			})
		})
	}
	inBubble(t, opts, func(t *testing.T, r *rig) {
		r.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.WithholdEnd{}, apiservertest.NoBookmarks{}}})
		events, err := r.watch(query + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").rest()
		require.NoError(t, err)
		require.Empty(t, events)
	})
}

func TestFaultSchedule(t *testing.T) {
	r := newRig(t, apiservertest.Options{Seed: 7})
	id := r.Faults().Add(apiservertest.Fault{Verb: "list", Skip: 1, Every: 2, Count: 2, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
	var codes []int
	for range 7 {
		code, _, _ := r.do("GET", "/api/v1/pods", "")
		codes = append(codes, code)
	}
	require.Equal(t, []int{200, 200, 500, 200, 500, 200, 200}, codes)
	require.Equal(t, 2, r.Faults().Remove(id))
}
