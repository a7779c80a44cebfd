package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// jsonValue is a parsed JSON value, to be encoded in another form.
type jsonValue struct {
	open   byte         // '{' or '[', or 0 for a scalar
	names  []string     // of an object, as encoded, with quotes
	parts  []*jsonValue // of an object or an array
	scalar string       // as encoded
	gap    string       // white space around its parts
}

func takeJSONApart(t testing.TB, text []byte) *jsonValue {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return readJSONValue(t, d)
}

func readJSONValue(t testing.TB, d *json.Decoder) *jsonValue {
	t.Helper()
	token, err := d.Token()
	require.NoError(t, err)
	open, ok := token.(json.Delim)
	if !ok {
		scalar, err := json.Marshal(token)
		require.NoError(t, err)
		return &jsonValue{scalar: string(scalar)}
	}
	v := &jsonValue{open: byte(open)}
	for d.More() {
		if v.open == '{' {
			v.names = append(v.names, readJSONValue(t, d).scalar)
		}
		v.parts = append(v.parts, readJSONValue(t, d))
	}
	_, err = d.Token()
	require.NoError(t, err)
	return v
}

func (v *jsonValue) encode(out []byte) []byte {
	switch v.open {
	case 0:
		return append(out, v.scalar...)
	case '[':
		out = append(out, '[')
	case '{':
		out = append(out, '{')
	}
	out = append(out, v.gap...)
	for i, part := range v.parts {
		if i > 0 {
			out = append(append(out, ','), v.gap...)
		}
		if v.open == '{' {
			out = append(append(append(append(out, v.names[i]...), v.gap...), ':'), v.gap...)
		}
		out = append(part.encode(out), v.gap...)
	}
	return append(out, v.open+2) // '}' and ']' are two after '{' and '['
}

// all returns v and every value in it.
func (v *jsonValue) all() []*jsonValue {
	all := []*jsonValue{v}
	for _, part := range v.parts {
		all = append(all, part.all()...)
	}
	return all
}

// add inserts a part at a random position. An array ignores the name.
func (v *jsonValue) add(random *rand.Rand, name string, part *jsonValue) {
	at := random.IntN(len(v.parts) + 1)
	v.parts = slices.Insert(v.parts, at, part)
	if v.open == '{' {
		v.names = slices.Insert(v.names, at, name)
	}
}

// become replaces v by another value.
func (v *jsonValue) become(t testing.TB, text string) { *v = *takeJSONApart(t, []byte(text)) }

// oddScalars are scalars that are invalid, or valid in few places.
var oddScalars = []string{
	`0`, `-0`, `1`, `-1`, `1.0`, `1.5`, `1e2`, `1E400`, `-1e-400`, `2147483647`, `2147483648`, `-2147483649`,
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `1e-99999`, `123456789012345678901234567890`,
	`01`, `+1`, `1.`, `.5`, `1e`, `-`, `0x1`, `NaN`, `tru`, `nul`, `True`,
	`true`, `false`, `null`, `""`, `"null"`, `"1"`, `"1e-99999"`, `"500m"`, `"x"`, `"AA=="`, `"AA"`, `"A\nA=="`, `"AA==AA=="`, `"_-8="`,
	`"2026-11-20T09:30:00Z"`, `"2026-11-20T09:30:00.123456Z"`, `"2026-11-20T09:30:00+01:00"`, `"2026-11-20T09:30:60Z"`, `"2026-02-30T09:30:00Z"`,
	`"2026-11-20t09:30:00z"`, `"2026-11-20T09:30:00,5Z"`, `"2026-11-20T9:30:00Z"`, `"26-11-20T09:30:00Z"`, `"1h30m"`, `"50%"`,
	`"\u00e9\ud83d\ude00\/\b\f\n\r\t\\\""`, `"\ud800"`, `"\udc00\ud800x"`, `"\uD83D\uDE0"`, `"\x"`, `"\u00"`, "\"\xff\"", "\"a\xc0\x80\"", "\"a\nb\"", "\"\x00\"",
	"\"\u2028<>&\"", `"` + strings.Repeat("long ", 100) + `"`, `"unterminated`,
}

// otherJSON are the ways in which another encoder, or a broken one, could have written a value.
var otherJSON = map[string]func(t testing.TB, random *rand.Rand, v *jsonValue){
	"unknown field": func(t testing.TB, random *rand.Rand, v *jsonValue) {
		texts := []string{`1`, `"x"`, `null`, `[1,{"a":[]}]`, `{"metadata":{"name":1},"a":{"b":"c"}}`, strings.Repeat("[", 90) + strings.Repeat("]", 90)}
		names := []string{`"unknown"`, `""`, `"Metadata"`, `"NAME"`, `"\u006eame"`, "\"\xff\""}
		v.add(random, names[random.IntN(len(names))], takeJSONApart(t, []byte(texts[random.IntN(len(texts))])))
	},
	"any order": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		random.Shuffle(len(v.parts), func(i, j int) {
			v.parts[i], v.parts[j] = v.parts[j], v.parts[i]
			if v.open == '{' {
				v.names[i], v.names[j] = v.names[j], v.names[i]
			}
		})
	},
	"twice": func(t testing.TB, random *rand.Rand, v *jsonValue) {
		if n := len(v.parts); n > 0 {
			at := random.IntN(n)
			name := ""
			if v.open == '{' {
				name = v.names[at]
			}
			v.add(random, name, takeJSONApart(t, v.parts[at].encode(nil)))
		}
	},
	"twice and not the same": func(t testing.TB, random *rand.Rand, v *jsonValue) {
		if n := len(v.parts); n > 0 && v.open == '{' {
			v.add(random, v.names[random.IntN(n)], takeJSONApart(t, v.parts[random.IntN(n)].encode(nil)))
		}
	},
	"a part of it twice": func(t testing.TB, random *rand.Rand, v *jsonValue) {
		if v.open != '{' {
			return
		}
		for i, name := range v.names {
			again := takeJSONApart(t, v.parts[i].encode(nil))
			for again.open == '{' && len(again.parts) > 1 && random.IntN(3) > 0 {
				again.names, again.parts = again.names[1:], again.parts[1:]
			}
			v.add(random, name, again)
		}
	},
	"left out": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		if n := len(v.parts); n > 0 {
			at := random.IntN(n)
			v.parts = slices.Delete(v.parts, at, at+1)
			if v.open == '{' {
				v.names = slices.Delete(v.names, at, at+1)
			}
		}
	},
	"null": func(t testing.TB, _ *rand.Rand, v *jsonValue) { v.become(t, "null") },
	"an empty value": func(t testing.TB, random *rand.Rand, v *jsonValue) {
		v.become(t, []string{"{}", "[]", `""`}[random.IntN(3)])
	},
	"a value in a list": func(_ testing.TB, _ *rand.Rand, v *jsonValue) {
		inner := *v
		*v = jsonValue{open: '[', parts: []*jsonValue{&inner}}
	},
	"white space": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		for _, inner := range v.all() {
			inner.gap = []string{"", " ", "\n\t", "\r\n  ", "\v"}[min(random.IntN(40), 4)%5]
		}
	},
	"odd scalar": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		for v.open != 0 && len(v.parts) > 0 {
			v = v.parts[random.IntN(len(v.parts))]
		}
		*v = jsonValue{scalar: oddScalars[random.IntN(len(oddScalars))]}
	},
	"escapes": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		for _, inner := range v.all() {
			for i := range inner.names {
				inner.names[i] = escaped(random, inner.names[i])
			}
			inner.scalar = escaped(random, inner.scalar)
		}
	},
	"names in another case": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		for i, name := range v.names {
			if random.IntN(2) == 0 {
				v.names[i] = strings.ToUpper(name)
			}
		}
	},
	"odd name": func(_ testing.TB, random *rand.Rand, v *jsonValue) {
		if n := len(v.names); n > 0 {
			v.names[random.IntN(n)] = oddScalars[random.IntN(len(oddScalars))]
		}
	},
}

// escaped replaces some letters of a quoted text by escapes.
func escaped(random *rand.Rand, text string) string {
	if !strings.HasPrefix(text, `"`) || strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for _, c := range text {
		if c > ' ' && c < 0x7f && c != '"' && random.IntN(4) == 0 {
			fmt.Fprintf(&out, `\u%04x`, c)
		} else {
			out.WriteRune(c)
		}
	}
	return out.String()
}

// A JSON object of any valid or broken form is decoded as the reference decodes it: into Go types,
// into metadata, and into maps.
func TestW01_JSONInOtherForms(t *testing.T) {
	SkipUnderRace(t)
	t.Parallel()
	const seed = 20261120
	random := rand.New(rand.NewPCG(seed, 3))
	all := scheme.New()
	f := newFiller(all)
	pool := NewPool()
	values, errs := 0, 0
	objectKinds(all, func(i int, a apiType) {
		opts := Options{Scheme: all, Kind: a.kind, MaxDepth: 100}
		typed := newContest[object.Object](t, MediaJSON, opts, pool)
		untyped := newContest[*unstructured.Unstructured](t, MediaJSON, opts, pool)
		metadata := newContest[*metav1.PartialObjectMetadata](t, MediaJSON, opts, pool)
		text := encodeAs(t, MediaJSON, a.kind, f.object(a.typ, sparse, int64(7000*i)))
		for _, name := range slices.Sorted(maps.Keys(otherJSON)) {
			whole := takeJSONApart(t, text)
			for range 1 + random.IntN(2) {
				parts := whole.all()
				otherJSON[name](t, random, parts[random.IntN(len(parts))])
			}
			body := whole.encode(nil)
			list := listOf(t, MediaJSON, a.kind, [][]byte{body, body, body})
			typed.objects(t, body, "%s of %s, seed %d, %s", name, a.kind, seed, body)
			typed.lists(t, list, "%s of a list of %s, seed %d, %s", name, a.kind, seed, body)
			untyped.lists(t, list, "%s of a list of %s in maps, seed %d, %s", name, a.kind, seed, body)
			metadata.objects(t, body, "%s of metadata of %s, seed %d, %s", name, a.kind, seed, body)
			if _, err := typed.reference.Object(body); err != nil {
				errs++
			} else {
				values++
			}
		}
		for range 2 {
			body := damage(random, text)
			typed.objects(t, body, "%s, seed %d, %s", a.kind, seed, body)
			untyped.objects(t, body, "%s in maps, seed %d, %s", a.kind, seed, body)
		}
	})
	t.Logf("%d values, %d errors", values, errs)
	require.Greater(t, values, portion(1000))
	require.Greater(t, errs, portion(100))
}
