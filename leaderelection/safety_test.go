package leaderelection_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/leaderelection"
)

var seed = flag.Uint64("seed", 0, "seed of the schedule to play; 0 for any")

// Whatever happens to networks, servers, processes and the Lease, two leaders never work at the same
// time, if work stops within LeaseDuration less RenewDeadline. Each term has a greater token than the
// ones before. When all is well again, a leader is elected.
func TestNeverTwoLeaders(t *testing.T) {
	const schedules = 8
	terms := int32(0)
	for n := range schedules {
		seed := *seed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Run(fmt.Sprintf("%d seed %d", n, seed), func(t *testing.T) {
			inBubble(t, func(r *rig) { terms += r.play(rand.New(rand.NewPCG(seed, 0))) })
		})
	}
	require.Greater(t, terms, int32(schedules), "the lead has changed now and then")
}

// worker is the work of all candidates: it knows who else works.
type worker struct {
	*rig
	random  *rand.Rand
	working atomic.Int32
	terms   atomic.Int32
	last    atomic.Int64
}

func (w *worker) work(stopping time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if others := w.working.Add(1) - 1; others > 0 {
			w.Errorf("%d others work", others)
		}
		defer w.working.Add(-1)
		w.terms.Add(1)
		token, _ := leaderelection.Token(ctx)
		if last := w.last.Swap(token); token <= last {
			w.Errorf("token %d after %d", token, last)
		}
		<-ctx.Done()
		time.Sleep(stopping)
		return nil
	}
}

// play returns how many terms there were.
func (r *rig) play(random *rand.Rand) int32 {
	w := &worker{rig: r, random: random}
	var candidates []*candidate
	join := func() {
		c := &candidate{rig: r}
		c.Elector, c.network = r.elector(options{})
		ctx, stop := context.WithCancel(r.ctx)
		c.stop = stop
		// The lease is released when this has passed, if the network is there.
		stopping := time.Duration(random.Int64N(int64(4900 * time.Millisecond)))
		r.runs.Go(func() {
			for ctx.Err() == nil {
				_ = c.Run(ctx, w.work(stopping))
			}
		})
		candidates = append(candidates, c)
	}
	for range 3 {
		join()
	}
	for range 60 {
		c := candidates[random.IntN(len(candidates))]
		switch random.IntN(10) {
		case 0, 1:
			c.network.cut.Store(true)
		case 2, 3:
			c.network.refuse.Store(true)
		case 4, 5:
			c.network.cut.Store(false)
			c.network.refuse.Store(false)
		case 6: // a process ends, without a word if its network is cut, and another begins
			c.stop()
			join()
		case 7:
			faults := []apiservertest.Action{
				apiservertest.Fail{Code: http.StatusInternalServerError}, apiservertest.Fail{Code: http.StatusConflict},
				apiservertest.Delay{For: 3 * time.Second}, apiservertest.Cut{}, apiservertest.Cut{AfterBytes: 20},
			}
			r.srv.Faults().Add(apiservertest.Fault{Resource: "leases", Probability: 0.5, Count: 20, Do: faults[random.IntN(len(faults)):][:1]})
		case 8:
			r.srv.Faults().Clear()
		case 9: // another client sets a label
			if o, err := r.srv.Get(leases, key); err == nil {
				l := o.DeepCopyObject().(*coordinationv1.Lease)
				l.Labels = map[string]string{"n": fmt.Sprint(random.IntN(100))}
				_, err := r.srv.Put(l)
				require.NoError(r, err)
			}
		}
		settle(time.Duration(random.Int64N(int64(12 * time.Second))))
	}
	r.srv.Faults().Clear()
	for _, c := range candidates {
		c.network.cut.Store(false)
		c.network.refuse.Store(false)
	}
	settle(time.Minute)
	require.EqualValues(r, 1, w.working.Load(), "all is well, and somebody leads")
	return w.terms.Load()
}
