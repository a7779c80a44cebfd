package membership_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/shard/membership"
)

// If another client edits a member's Lease, the other members ignore the edit. If it removed claims, the member
// ends its terms and claims its slots again.
func TestS01_AnEditedLeaseFreesNoSlots(t *testing.T) {
	for name, edit := range map[string]func(l *coordinationv1.Lease){
		"annotations": func(l *coordinationv1.Lease) { l.Annotations = nil },
		"leaving": func(l *coordinationv1.Lease) {
			l.Annotations["shard.millrace.dev/state"], l.Annotations["shard.millrace.dev/slots"] = "leaving", ""
		},
		"duration": func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 8, func(r *rig) {
				a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
				settle(10 * time.Second)
				before := r.counts(a, b)
				slots, _ := a.Owned()
				slot := slots.All()[0]
				term, _ := a.Term(slot)
				for last := r.lease("a").ResourceVersion; r.lease("a").ResourceVersion == last; {
					settle(time.Millisecond) // until a has just renewed it
				}
				l := r.lease("a")
				edit(l)
				_, err := r.srv.Put(l)
				require.NoError(t, err)
				for range 500 {
					settle(10 * time.Millisecond)
					require.False(t, a.Owns(r.hashOf(slot)) && b.Owns(r.hashOf(slot)), "two owners")
				}
				require.Equal(t, before, r.counts(a, b))
				again, _ := a.Term(slot)
				require.Equal(t, name == "duration", again == term)
			})
		})
	}
}

// The slots of a member that has died become free even if another client has removed all annotations of its Lease.
func TestS02_AnEditedLeaseOfADeadMemberIsBuried(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(10 * time.Second)
		a.network.cut()
		settle(5 * time.Second)
		l := r.lease("a")
		l.Annotations = nil
		_, err := r.srv.Put(l)
		require.NoError(t, err)
		settle(30 * time.Second)
		require.Equal(t, map[string]int{"b": 8}, r.counts(b))
	})
}

// renaming is an admission policy that drops the annotations of Leases: it renames them.
type renaming struct{ http.RoundTripper }

func (p renaming) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"layout", "slots", "weight"} { // of the same length
			body = bytes.ReplaceAll(body, []byte("shard.millrace.dev/"+name), []byte("other.millrace.dev/"+name))
		}
		req = req.Clone(req.Context())
		req.Body, req.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	}
	return p.RoundTripper.RoundTrip(req)
}

// If an admission policy drops a member's claims, the member takes no slots, and reports it.
func TestS01_ALeaseStoredWithoutItsClaims(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		drops := func(n *network) { n.RoundTripper = renaming{n.RoundTripper} }
		a := r.joinOver("a", membership.Options{}, drops)
		settle(10 * time.Second)
		require.ErrorContains(t, a.Status().Refusal, "an admission policy changed it")
		b := r.joinOver("b", membership.Options{}, drops)
		settle(10 * time.Second)
		for _, m := range []*member{a, b} {
			owned, _ := m.Owned()
			require.Zero(t, owned.Len())
			require.Error(t, m.Status().Refusal)
			require.ErrorContains(t, m.Status().Failure, "an admission policy changed it")
		}
		require.Less(t, r.srv.Stats().Requests("update", "leases")+r.srv.Stats().Requests("create", "leases"), 100)
	})
}
