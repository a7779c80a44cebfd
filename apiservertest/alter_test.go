package apiservertest_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
)

func TestAlter(t *testing.T) {
	const at = 40
	cases := map[string]struct {
		do   []apiservertest.Action
		want func(whole string) string
	}{
		"flip": {[]apiservertest.Action{apiservertest.Alter{At: at, Flip: 0x20}},
			func(s string) string { return s[:at] + string(s[at]^0x20) + s[at+1:] }},
		"cut": {[]apiservertest.Action{apiservertest.Alter{At: at, Cut: 7}},
			func(s string) string { return s[:at] + s[at+7:] }},
		"cut the rest": {[]apiservertest.Action{apiservertest.Alter{At: at, Cut: 1 << 40}},
			func(s string) string { return s[:at] }},
		"insert": {[]apiservertest.Action{apiservertest.Alter{At: at, Insert: []byte("\x00{")}},
			func(s string) string { return s[:at] + "\x00{" + s[at:] }},
		"replace the first": {[]apiservertest.Action{apiservertest.Alter{Cut: 1, Insert: []byte("[")}},
			func(s string) string { return "[" + s[1:] }},
		"twice": {[]apiservertest.Action{apiservertest.Alter{At: at, Cut: 1}, apiservertest.Alter{At: 3, Flip: 1}},
			func(s string) string { return s[:3] + string(s[3]^1) + s[4:at] + s[at+1:] }},
		"behind the end": {[]apiservertest.Action{apiservertest.Alter{At: 1 << 20, Flip: 1}},
			func(s string) string { return s }},
		"and cut off": {[]apiservertest.Action{apiservertest.Alter{At: at, Insert: []byte("xx")}, apiservertest.Cut{AfterBytes: at + 1}},
			func(s string) string { return s[:at] + "x" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
				r.create(pod("default", "a"), pod("default", "b"))
				_, whole, _ := r.do("GET", "/api/v1/pods", "")
				fault := r.Faults().Add(apiservertest.Fault{Verb: "list", Do: tc.do})
				resp := r.open("GET", "/api/v1/pods", "")
				altered, err := io.ReadAll(resp.Body)
				require.Equal(t, name == "and cut off", err != nil, "%v", err)
				require.Equal(t, tc.want(string(whole)), string(altered))
				require.Equal(t, 1, r.Faults().Remove(fault))
			})
		})
	}
}

// The frames of a watch form one body, and an offset may be in any of them.
func TestAlterAWatch(t *testing.T) {
	frames := func(do ...apiservertest.Action) (text string) {
		inBubble(t, apiservertest.Options{}, func(t *testing.T, r *rig) {
			if len(do) > 0 {
				r.Faults().Add(apiservertest.Fault{Verb: "watch", Do: do})
			}
			resp := r.open("GET", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion="+r.RV(), "")
			for _, name := range []string{"a", "b", "c"} {
				synctest.Wait()
				r.create(pod("default", name))
			}
			raw, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			text = string(raw)
		})
		return text
	}
	plain := frames()
	name := strings.Index(plain, `"name":"b"`) + len(`"name":"`)
	require.Positive(t, name)
	require.Equal(t, plain[:name]+"B"+plain[name+1:], frames(apiservertest.Alter{At: int64(name), Flip: 0x20}))
}
