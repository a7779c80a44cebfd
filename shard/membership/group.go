package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// ErrRunning: Run was called while it runs.
var ErrRunning = errors.New("the member is already running")

var _ shard.Share = (*Group)(nil)

// Group is one member of a group, and the share that it has. Make it with New.
type Group struct {
	opts     Options
	leases   *lease.Client
	trouble  lease.Trouble
	informer *sharedinformer.Informer[*coordinationv1.Lease]
	seen     *sightings
	turn     chan struct{} // a token while Run runs
	wake     chan struct{} // a token while there may be something to do

	mu      sync.Mutex // guards what follows; nothing is called while it is held
	slots   []slot
	until   time.Time // when what we have must have ended, as things are
	owned   shard.Slots
	changed chan struct{} // closed, and replaced, when owned changes
	status  Status
	running bool
	refused error   // why we take no slots
	places  []place // by slot, what the last judgement says; empty before it
}

// New checks the options and sends nothing. The client's scheme must know Lease.
func New(client *rest.Client, opts Options) (*Group, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	leases, err := lease.NewClient(client, opts.Namespace)
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	opts.Logger = opts.Logger.With("group", opts.Name)
	g := &Group{
		opts:    opts,
		leases:  leases,
		trouble: lease.Trouble{Logger: opts.Logger},
		turn:    make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		slots:   make([]slot, opts.Slots),
		owned:   shard.NewSlots(opts.Slots),
		changed: make(chan struct{}),
	}
	g.status = Status{Namespace: opts.Namespace, Group: opts.Name, Identity: opts.Identity, Weight: opts.Weight, Slots: opts.Slots, Layout: opts.Layout}
	g.seen = &sightings{opts: opts, told: g.look, all: map[types.UID]*sighting{}}
	g.informer = sharedinformer.New[*coordinationv1.Lease](leases.Source(), sharedinformer.Options{
		Name: "leases of group " + opts.Name, Logger: opts.Logger,
		LabelSelector: labels.SelectorFromSet(labels.Set{GroupLabel: opts.Name}),
		Timing: reflector.Timing{ // a member that does not see the others takes on nothing
			WatchTimeout: time.Minute, StallTimeout: opts.RenewDeadline,
			Backoff: reflector.Backoff{Max: 2 * opts.RetryPeriod},
		},
	})
	g.informer.AddHandlerWith(g.seen, sharedinformer.HandlerOptions{Name: "group " + opts.Name, OnSync: g.look})
	return g, nil
}

// look has the keeper look at everything again.
func (g *Group) look() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run takes part until ctx is done, and then leaves: it hands all slots over, which takes
// as long as the work in them takes to end, and deletes its Lease. Trouble with the server
// is not an error: it is tried again, and shows in Status.
func (g *Group) Run(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	default:
		return fmt.Errorf("membership: group %s: %w", g.opts.Name, ErrRunning)
	}
	beyond, stop := context.WithCancel(context.WithoutCancel(ctx)) // we outlive ctx to leave
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	wait, err := g.informer.Start(beyond)
	if err != nil {
		return fmt.Errorf("membership: group %s: %w", g.opts.Name, err)
	}
	g.setRunning(true)
	defer g.setRunning(false)
	running.Go(func() { _ = wait() })
	running.Go(func() { g.watch(beyond) })
	k := &keeper{Group: g, ours: map[types.UID]bool{}, answers: make(chan answer, lease.MaxRequests+1), requests: &running}
	k.keep(ctx, beyond)
	return nil
}

func (g *Group) setRunning(running bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = running
}

// watch ends the work at the deadline, which each renewal puts off, whatever a transport
// or a logger does.
func (g *Group) watch(ctx context.Context) {
	for {
		g.mu.Lock()
		left, changed := time.Until(g.until), g.changed
		if left <= 0 {
			g.loseAll(fmt.Errorf("%w: not renewed for %s", shard.ErrLost, g.opts.RenewDeadline))
			left, changed = time.Hour, g.changed
		}
		g.mu.Unlock()
		if !lease.Sleep(ctx, left, changed) { // after a change there may be something to lose
			return
		}
	}
}

// Owned returns the slots that are this member's, and a channel that is closed when they
// have changed. One that is to be handed over is among them until the work in it has ended, or
// its context has, so that what that reads is there.
func (g *Group) Owned() (shard.Slots, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned, g.changed
}

// Term returns the token of the term in which this member has a slot, and false if it does
// not have it.
func (g *Group) Term(slot int) (shard.Token, bool) {
	if slot < 0 || slot >= g.opts.Slots {
		return shard.Token{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.slots[slot]
	if !s.ours() || !time.Now().Before(g.until) {
		return shard.Token{}, false
	}
	return s.token, true
}

// Owns reports whether the slot of a hash is this member's now.
func (g *Group) Owns(hash uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.slots[shard.SlotOf(hash, g.opts.Slots)].phase == held && time.Now().Before(g.until)
}
