package membership_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/redial"
	"github.com/millrace-dev/millrace/shard/membership"
)

// dying is a connection that is dead after ten seconds.
type dying struct {
	http.RoundTripper
	dead time.Time
}

func (d dying) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && time.Now().After(d.dead) && !redial.Marked(req.Context()) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return d.RoundTripper.RoundTrip(req)
}

// If the connection is dead, the next attempt uses a new one, and renews the Lease in time.
func TestRenewalOverADeadConnection(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a := r.joinOver("a", membership.Options{}, func(n *network) { n.RoundTripper = dying{n.RoundTripper, time.Now().Add(10 * time.Second)} })
		settle(2 * time.Minute)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		require.Nil(t, a.Status().Lost)
	})
}
