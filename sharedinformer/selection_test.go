package sharedinformer_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	simulated "github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// selects runs play with a server that selects, and a member that has three of eight slots.
func selects(t *testing.T, on bool, key shard.Key, opts sharedinformer.Options, play func(r *sharing, m *member)) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{Seed: 1, ShardSelectors: on})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		r := &sharing{T: t, srv: srv, endpoint: endpoint, net: simulated.New(1), random: rand.New(rand.NewPCG(1, 0)), key: key, deleted: map[types.UID]bool{}, moved: map[types.UID]bool{}}
		for range 300 {
			r.write(r.name())
		}
		m := r.join(opts)
		require.Equal(t, shard.SelectionUnknown, m.Status().Selection, "nothing has told yet")
		m.link.Set(simulated.Conditions{Latency: time.Millisecond})
		for _, slot := range []int{1, 3, 4} {
			r.give(slot, m)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		defer runs.Wait()
		defer cancel()
		runs.Go(func() { require.NoError(t, m.Run(ctx)) })
		require.NoError(t, m.WaitForSync(ctx))
		play(r, m)
	})
}

// A server that selects sends only objects in the slots, in lists, watches and streaming lists, and
// the status reports it. Objects that it does not send do not count as passed.
func TestTheServerSelects(t *testing.T) {
	for _, opts := range []sharedinformer.Options{
		{Initial: reflector.List}, {Initial: reflector.WatchList, Store: sharedinformer.Packed}, {Initial: reflector.List, Namespaces: []string{"na", "nb", "nc", "nd"}},
	} {
		selects(t, true, shard.ByUID(), opts, func(r *sharing, m *member) {
			for range 200 {
				r.write(r.name())
			}
			time.Sleep(time.Minute)
			r.settled()
			require.Equal(t, shard.SelectionByServer, m.Status().Selection, "%+v", opts)
			require.Zero(t, m.Status().Reflector.Passed)
			r.give(6, m)
			m.lose(1)
			for range 50 {
				r.write(r.name())
			}
			time.Sleep(time.Minute)
			r.settled()
			require.Equal(t, shard.SelectionByServer, m.Status().Selection)
		})
	}
}

// A server that does not select sends everything, and the status reports that. The next list or watch
// may be answered by a server that selects.
func TestTheServerLearnsToSelect(t *testing.T) {
	selects(t, false, shard.ByUID(), sharedinformer.Options{}, func(r *sharing, m *member) {
		require.Equal(t, shard.SelectionByClient, m.Status().Selection)
		r.srv.SetShardSelectors(true)
		m.link.Cut()
		time.Sleep(time.Minute)
		passed := m.Status().Reflector.Passed
		for range 300 {
			r.write(r.name())
		}
		time.Sleep(time.Minute)
		r.settled()
		require.Equal(t, shard.SelectionByServer, m.Status().Selection, "by what it sends")
		require.Equal(t, passed, m.Status().Reflector.Passed)
		r.srv.SetShardSelectors(false)
		m.link.Cut()
		time.Sleep(time.Minute)
		for range 50 {
			r.write(r.name())
		}
		time.Sleep(time.Minute)
		r.settled()
		require.Equal(t, shard.SelectionByClient, m.Status().Selection)
	})
}

// No server can select by a label.
func TestNoServerSelectsByLabels(t *testing.T) {
	selects(t, true, shard.ByLabel("team"), sharedinformer.Options{}, func(r *sharing, m *member) {
		require.Equal(t, shard.SelectionByClient, m.Status().Selection)
		time.Sleep(time.Minute)
		r.settled()
	})
}

// Without a share the status does not say who selects.
func TestServerDoesNotSelectWithoutAShare(t *testing.T) {
	selects(t, true, shard.ByUID(), sharedinformer.Options{}, func(r *sharing, m *member) {
		alone := sharedinformer.New[*corev1.ConfigMap](r.source(r.net.Link("alone")).Source(), sharedinformer.Options{})
		require.Equal(t, shard.SelectionNone, alone.Status().Selection)
		require.NotEqual(t, shard.SelectionNone, m.Status().Selection)
	})
	for by, want := range map[shard.Selection]bool{
		shard.SelectionNone: false, shard.SelectionUnknown: true, shard.SelectionByClient: true,
	} {
		text, err := json.Marshal(sharedinformer.Status{Selection: by})
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(string(text), `"Selection":"`+by.String()+`"`), "%s", text)
		require.Equal(t, want, strings.Contains(string(text), "Selection"), "%s", text)
	}
}
