package guard

import (
	"encoding/json"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/test/apiserver/objects"
)

// Honest objects are not suspected, or the reference would read each one twice. Uids and
// digests are full of digits around an e; only short hashes are now and then nothing else.
func TestHonestObjectsAreNotSuspected(t *testing.T) {
	suspected := 0
	for i := range 1000 {
		raw, err := json.Marshal(objects.Pod(1, i, objects.Options{}))
		require.NoError(t, err)
		if MayHoldAbsurd(raw) {
			suspected++
		}
	}
	require.Less(t, suspected, 50)
	for _, text := range []string{
		`{"uid":"9cc24f20-9d19-4e75-a87f-3e1234567890"}`,
		`{"image":"a/b@sha256:60e33317829f"}`,
		`{"k:{\"uid\":\"3e1234-5\"}":{}}`,
		`{"cpu":"1e3","memory":12e-3}`,
		`{"path":"C:\\3e12345x"}`,
	} {
		require.False(t, MayHoldAbsurd([]byte(text)), text)
	}
}

// The quick test misses nothing that is absurd, in whatever way it is written.
func TestW02_WhatIsAbsurdIsSuspected(t *testing.T) {
	long := strings.Repeat("1", MaxNumerals+1)
	for _, text := range []string{
		`1e99999`, `-1.5E+12345`, `"1e-99999"`, `"1e+-00099999"`, `" 1e99999 "`, `"\t1e99999\n"`,
		`"\u20031e99999\u2003"`, `"\u00a01e99999"`, `"\u202f1e99999\u202f"`, `"\u000b1e99999\f"`,
		"\"\u20031e99999\u00a0\"", "\"\u00851e99999\"", `"\u0031e99999"`, `"1\u00459999\u0039"`, long, `"` + long + `"`,
	} {
		requireSuspected(t, text)
	}
	pieces := []string{"1", "20", ".", "-", "+", "e", "E", "0", "999", "99999", " ", `\t`, `\u2003`, `\u00a0`, "\u2003", `\u0065`, `\u0039`, `\\`, "x"}
	random := rand.New(rand.NewSource(1))
	absurd := 0
	for range 50_000 {
		var b strings.Builder
		for range 1 + random.Intn(6) {
			b.WriteString(pieces[random.Intn(len(pieces))])
		}
		if requireSuspected(t, `"`+b.String()+`"`) {
			absurd++
		}
	}
	require.Greater(t, absurd, 200)
}

// requireSuspected requires that a value is suspected if it is absurd as it stands, or
// as what it stands for. It reports whether it is.
func requireSuspected(t *testing.T, text string) bool {
	absurd := Absurd([]byte(strings.Trim(text, `"`)))
	var unquoted string
	if json.Unmarshal([]byte(text), &unquoted) == nil {
		absurd = absurd || Absurd([]byte(unquoted))
	}
	for _, raw := range []string{text, `{"a":` + text + `}`, "[0, " + text + "\n]"} {
		if absurd {
			require.True(t, MayHoldAbsurd([]byte(raw)), raw)
		}
	}
	return absurd
}

// What leads to nothing that is checked is passed over, and what comes to it by a detour
// is not.
func TestGuardHasOnlyWhatMatters(t *testing.T) {
	type chain struct {
		Name  string
		Next  *chain
		Other map[string][]chain
		Sizes map[string]resource.Quantity
		Tags  map[string]string
	}
	g := Of(reflect.TypeFor[chain]())
	require.ElementsMatch(t, []string{"Next", "Other", "Sizes"}, slices.Collect(maps.Keys(g.names)))
	require.Equal(t, []*Guard{g}, g.Below("Next"))
	require.Equal(t, []*Guard{g}, g.Below("Other")[0].Below("any"))
	require.True(t, g.Below("Sizes")[0].Below("any")[0].IsQuantity)

	pod := Of(reflect.TypeFor[corev1.Pod]())
	require.NotContains(t, pod.Below("metadata")[0].names, "labels")
	require.Contains(t, pod.Below("spec")[0].names, "overhead")
}
