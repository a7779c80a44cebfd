package reflector

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// restless is an Ownership that gains something at any moment.
type restless struct{ began time.Time }

func (o restless) Gains() uint64 { return uint64(time.Since(o.began) / time.Millisecond) }

func (o restless) Select(*source.Request, bool) func() []object.Version { return nil }

// endless has lists that take a moment each, without end.
type endless struct{ *script }

func (s endless) List(context.Context, source.Request) source.List[object.Head] {
	s.asked = append(s.asked, "list")
	time.Sleep(time.Millisecond)
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "8"}, Items: func(func(object.Head, error) bool) {}}
}

// Lists after gains are rate-limited, until the end of a context with a deadline.
func TestListsThatFollowGainsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r := New(endless{s}, &taken{}, Options{Initial: List, Ownership: restless{time.Now()}})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second+200*time.Millisecond)
		defer cancel()
		require.NoError(t, r.Run(ctx))
		lists := strings.Count(strings.Join(s.asked, " "), "list")
		require.InDelta(t, 20+2*30, lists, 3)
	})
}
