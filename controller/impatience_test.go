package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// deafCache never sees a write.
type deafCache struct{ cache }

func (deafCache) reached(string, string) bool                    { return false }
func (deafCache) heard(string) uint64                            { return 0 }
func (deafCache) wait(context.Context, func() bool) error        { return nil }
func (deafCache) reconnect(string, uint64, time.Duration, error) {}

// Where the patience is over before the note of a write is made, as a very short one may be, the
// notes before it are looked at once, and not for as long as the cache lags.
func TestAPatienceThatIsOverAtOnce(t *testing.T) {
	var p parking
	for n := range 3 {
		req := Request{Key: object.Key{Name: fmt.Sprint(n)}}
		p.note(req, []write{{cache: deafCache{}, rv: "1"}}, time.Now().Add(-time.Second))
		require.Contains(t, p.notes, req)
	}
	require.Len(t, p.order, 3)
}
