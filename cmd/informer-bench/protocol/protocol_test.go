package protocol

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func object(namespace, name string, uid types.UID, rv string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, ResourceVersion: rv}
}

func TestDigestSeesEverythingButTheOrder(t *testing.T) {
	digest := func(objects ...*metav1.ObjectMeta) (d Digest) {
		for _, o := range objects {
			d.Add(o)
		}
		return d
	}
	a, b := object("n", "a", "1", "5"), object("n", "b", "2", "6")
	want := digest(a, b)
	require.Equal(t, want, digest(b, a))
	for _, other := range []*metav1.ObjectMeta{
		object("m", "a", "1", "5"), object("n", "aa", "1", "5"), object("n", "a", "1", "6"), object("n", "a", "2", "5"),
	} {
		require.NotEqual(t, want, digest(other, b))
	}
	text, err := want.MarshalText()
	require.NoError(t, err)
	var got Digest
	require.NoError(t, got.UnmarshalText(text))
	require.Equal(t, want, got)
}

func TestServeWaitsAtMarks(t *testing.T) {
	contestantIn, harnessOut := io.Pipe()
	harnessIn, contestantOut := io.Pipe()
	passed := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(context.Background(), contestantIn, contestantOut, map[string]Work{
			"good": func(_ context.Context, s *Session) (*Result, error) {
				if err := s.Mark(MarkSynced); err != nil {
					return nil, err
				}
				close(passed)
				return &Result{Objects: s.Objects}, nil
			},
		})
	}()
	lines := bufio.NewScanner(harnessIn)
	hear := func() (e Event) {
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		return e
	}
	say := func(text string) {
		_, err := io.WriteString(harnessOut, text+"\n")
		require.NoError(t, err)
	}
	require.Equal(t, Event{Event: EventReady}, hear())
	say(`{"scenario":"good","objects":3}`)
	require.Equal(t, Event{Event: EventMark, Name: MarkSynced}, hear())
	select {
	case <-passed:
		t.Fatal("the contestant went on before it was told to")
	default:
	}
	say(`{"go":true}`)
	require.Equal(t, Event{Event: EventResult, Result: &Result{Objects: 3}}, hear())
	require.NoError(t, <-ended)
}

func TestServeReportsFailures(t *testing.T) {
	failing := func(context.Context, *Session) (*Result, error) { return nil, errors.New("no luck") }
	for scenario, want := range map[string]string{"bad": "no luck", "other": "not known"} {
		in, out := io.Pipe()
		go func() {
			// Serve reads nothing after the start.
			_, _ = io.WriteString(out, `{"scenario":"`+scenario+`"}`+"\n")
		}()
		var said recorder
		err := Serve(context.Background(), in, &said, map[string]Work{"bad": failing})
		require.ErrorContains(t, err, want)
		require.Contains(t, string(said), `"event":"error"`)
		require.Contains(t, string(said), want)
	}
}

type recorder []byte

func (r *recorder) Write(b []byte) (int, error) {
	*r = append(*r, b...)
	return len(b), nil
}

func TestEachStretchHasItsProfile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("INFORMER_BENCH_PROFILE", dir)
	in := strings.NewReader(`{"scenario":"some"}` + strings.Repeat(`{"go":true}`, 2))
	err := Serve(t.Context(), in, io.Discard, map[string]Work{
		"some": func(_ context.Context, s *Session) (*Result, error) {
			return &Result{}, errors.Join(s.Mark(MarkBegin), s.Mark(MarkSynced))
		},
	})
	require.NoError(t, err)
	var got []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Positive(t, info.Size())
		got = append(got, strings.TrimSuffix(e.Name(), fmt.Sprintf("-%d.pprof", os.Getpid())))
	}
	require.Equal(t, []string{"some-end", "some-synced"}, got)
}
