package units

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type level uint8

func (l level) MarshalText() ([]byte, error) {
	if int(l) < len(names) {
		return []byte(names[l]), nil
	}
	return nil, errors.New("no name")
}

var names = []string{"none", "low", "high"}

type inner struct{ Took time.Duration }

// failing has methods whose JSON could not be decoded again.
type failing struct {
	Err  error
	Last time.Time
}

func (*failing) MarshalText() ([]byte, error) { return []byte("it failed"), nil }

type sample struct {
	inner
	RV         string
	UIDOf      string
	RetryAt    time.Time
	P99        time.Duration
	Level      level
	Levels     []level
	Failure    *failing
	Err        error
	Left       *int
	Count      int
	Attempt    int `json:",omitzero"`
	ByName     map[string]inner
	Raw        json.RawMessage
	Nested     []sample
	unexported int
}

func full() sample {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return sample{
		inner: inner{1500 * time.Millisecond}, RV: "7", UIDOf: "<u>", RetryAt: at, P99: time.Nanosecond,
		Level: 2, Levels: []level{1, 0}, Failure: &failing{Err: errors.New("no route"), Last: at},
		Err: errors.New("x"), Attempt: 3, ByName: map[string]inner{"b": {2}, "a": {time.Hour}},
		Raw: json.RawMessage(`{"kind":"Pod"}`), Nested: []sample{{Count: 1}}, unexported: 1,
	}
}

func TestNamesTellTheUnit(t *testing.T) {
	text, err := Marshal(full())
	require.NoError(t, err)
	require.Equal(t, `{"tookSeconds":1.5,"rv":"7","uidOf":"<u>","retryAt":"2026-01-02T03:04:05.000000006Z","p99Seconds":0.000000001,`+
		`"level":"high","levels":["low","none"],"failure":{"err":"no route","last":"2026-01-02T03:04:05.000000006Z"},"err":"x","count":0,`+
		`"attempt":3,"byName":{"a":{"tookSeconds":3600},"b":{"tookSeconds":0.000000002}},"raw":{"kind":"Pod"},`+
		`"nested":[{"tookSeconds":0,"p99Seconds":0,"level":"none","count":1}]}`, string(text))
}

func TestRoundTrip(t *testing.T) {
	text, err := Marshal(full())
	require.NoError(t, err)
	var back sample
	require.NoError(t, Unmarshal(text, &back))
	want := full()
	want.unexported = 0
	require.Equal(t, want, back)

	for _, d := range []time.Duration{math.MaxInt64 / 2, -time.Second, 123456789 * time.Microsecond, 3*24*time.Hour + 1} {
		text, err := Marshal(inner{d})
		require.NoError(t, err)
		var back inner
		require.NoError(t, Unmarshal(text, &back))
		require.InDelta(t, float64(d), float64(back.Took), math.Abs(float64(d))/1e15, text)
	}
}

func TestMalformedInputIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		`{"tookSeconds":"soon"}`:            "tookSeconds: ",
		`{"tookSeconds":1e300}`:             "overflow a time.Duration",
		`{"level":1}`:                       "level: ",
		`{"nested":[{},{"p99Seconds":[]}]}`: "nested: [1]: p99Seconds: ",
		`{"byName":{"a":7}}`:                "byName: a: ",
		`[`:                                 "unexpected end",
		``:                                  "unexpected end",
	} {
		require.ErrorContains(t, Unmarshal([]byte(text), new(sample)), want, text)
	}
	var s sample
	require.NoError(t, Unmarshal([]byte(`{"level":"of a later version","unknown":1,"failure":null}`), &s))
	require.Zero(t, s)
	require.Error(t, Unmarshal([]byte(`{}`), s))
	_, err := Marshal(struct{ F func() }{func() {}})
	require.ErrorContains(t, err, "f: cannot represent func() in JSON")
}

func FuzzUnmarshal(f *testing.F) {
	text, err := Marshal(full())
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"tookSeconds":1e9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s, again sample
		if Unmarshal(data, &s) != nil {
			return
		}
		text, err := Marshal(s)
		require.NoError(t, err)
		require.NoError(t, Unmarshal(text, &again))
		twice, err := Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(text), string(twice))
	})
}

func TestTimesAreShifted(t *testing.T) {
	v, want := full(), full()
	later := want.RetryAt.Add(time.Minute)
	want.RetryAt, want.Failure.Last = later, later
	want.Nested[0].RetryAt = time.Time{} // as it was
	v.Nested = append(v.Nested, full())
	want.Nested = append(want.Nested, full())
	want.Nested[1].RetryAt, want.Nested[1].Failure.Last = later, later
	Shift(&v, time.Minute)
	require.Equal(t, want, v)
}
