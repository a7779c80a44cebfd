package scenario

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// kept returns reads of 3000 Pods, and the number of times each was read. A read takes a
// microsecond; in a bubble it takes no longer on a slow machine.
func kept() (r Reads, got map[string]int) {
	got = map[string]int{}
	shelves := map[string]int{}
	for i := range 3000 {
		p := &corev1.Pod{}
		p.Name = strconv.Itoa(i)
		shelves[ShelfOf(p, 3000)]++
		r.Keys = append(r.Keys, types.NamespacedName{Name: p.Name})
	}
	r.Get = func(key types.NamespacedName) (*corev1.Pod, error) {
		got[key.Name]++
		time.Sleep(time.Microsecond)
		p := &corev1.Pod{}
		p.Name = key.Name
		return p, nil
	}
	r.Shelf = func(shelf string) (int, error) {
		time.Sleep(time.Microsecond)
		return shelves[shelf], nil
	}
	return r, got
}

func TestReadsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		s := told(protocol.Params{Millis: 20}, &said)
		s.Objects = 3000
		r, got := kept()
		result, err := r.Measure(s)
		require.NoError(t, err)
		require.Len(t, got, 3000, "all were got, not only those in use")
		for _, metric := range []string{results.GetUsed, results.GetOther, results.Thousand} {
			require.Positive(t, result.Metrics[metric], metric)
		}
		for shelf := range 3 {
			n, _ := r.Shelf(strconv.Itoa(shelf))
			require.InDelta(t, 1000, n, 100)
		}
	})
}

func TestReadsThatFail(t *testing.T) {
	for says, spoil := range map[string]func(*Reads){
		"want 3000": func(r *Reads) { r.Keys = r.Keys[1:] },
		"got other": func(r *Reads) {
			r.Get = func(types.NamespacedName) (*corev1.Pod, error) {
				p := &corev1.Pod{}
				p.Name = "other"
				return p, nil
			}
		},
		"no luck": func(r *Reads) { r.Shelf = func(string) (int, error) { return 0, errors.New("no luck") } },
		"has no Pods": func(r *Reads) {
			r.Shelf = func(string) (int, error) {
				time.Sleep(time.Microsecond)
				return 0, nil
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := told(protocol.Params{Millis: 1}, new(bytes.Buffer))
			s.Objects = 3000
			r, _ := kept()
			spoil(&r)
			_, err := r.Measure(s)
			require.ErrorContains(t, err, says)
		})
	}
}
