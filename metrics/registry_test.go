package metrics_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

var _ metrics.ElectionSource = (*leaderelection.Elector)(nil)

type election leaderelection.Status

func (e election) Status() leaderelection.Status { return leaderelection.Status(e) }

var _ metrics.MembershipSource = (*membership.Group)(nil)

type group membership.Status

func (g group) Status() membership.Status { return membership.Status(g) }

func TestARegistryShowsAProgram(t *testing.T) {
	r := metrics.NewRegistry()
	near := statuses{{Reflector: reflector.Status{Resource: "pods"}, Synced: true}}
	require.NoError(t, r.AddInformers("", near))
	require.NoError(t, r.AddInformers("far", statuses{sharedinformer.Status{Reflector: reflector.Status{Resource: "pods"}}}))
	require.Error(t, r.AddInformers("far", near), "two clusters of one name")
	require.NoError(t, r.Register(metrics.NewElections(election{
		Lease: object.Key{Namespace: "shop", Name: "janitor"}, Leading: true, Token: 7, Attempts: 2,
	})))
	require.NoError(t, r.Register(metrics.NewMemberships(group{
		Group: "carts", Seen: time.Now(), Members: make([]membership.Member, 3), Owned: shard.NewSlots(8, 1, 2), Wanted: shard.NewSlots(8, 1, 2, 3),
		Leaving: shard.NewSlots(8, 0), Orphans: shard.NewSlots(8, 7), Moving: shard.NewSlots(8, 0, 3), Refusal: errors.New("odd"), Attempts: 4,
	})))
	q := workqueue.New(workqueue.Options[string]{Name: "work", Metrics: r.WorkQueues()})
	defer q.ShutDown()
	q.Add("a")

	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	lines := strings.Split(w.Body.String(), "\n")
	for _, want := range []string{
		`millrace_informer_synced{cluster="",resource="pods"} 1`,
		`millrace_informer_synced{cluster="far",resource="pods"} 0`,
		`leader_election_master_status{name="janitor"} 1`,
		`millrace_leader_election_token{name="janitor"} 7`,
		`millrace_leader_election_failing_attempts{name="janitor"} 2`,
		`millrace_shard_members{group="carts"} 3`,
		`millrace_shard_slots_owned{group="carts"} 2`,
		`millrace_shard_slots_wanted{group="carts"} 3`,
		`millrace_shard_slots_leaving{group="carts"} 1`,
		`millrace_shard_slots_orphaned{group="carts"} 1`,
		`millrace_shard_slots_moving{group="carts"} 2`,
		`millrace_shard_refused{group="carts"} 1`,
		`millrace_shard_failing_attempts{group="carts"} 4`,
		`workqueue_adds_total{controller="work",name="work"} 1`,
	} {
		require.Contains(t, lines, want)
	}
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// A process that has not seen its group exports nothing about it.
func TestAGroupThatWasNotSeen(t *testing.T) {
	r := metrics.NewRegistry()
	require.NoError(t, r.Register(metrics.NewMemberships(group{Group: "carts", Refusal: errors.New("not yet")})))
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), `millrace_shard_slots_owned{group="carts"} 0`)
	require.Contains(t, w.Body.String(), `millrace_shard_refused{group="carts"} 1`)
	for _, unknown := range []string{"members", "slots_wanted", "slots_orphaned", "slots_moving"} {
		require.NotContains(t, w.Body.String(), "millrace_shard_"+unknown+"{")
	}
}
