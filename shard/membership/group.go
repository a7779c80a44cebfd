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

// ErrRunning means that Run was called while another call was running.
var ErrRunning = errors.New("the member is already running")

var _ shard.Share = (*Group)(nil)

// Group is a member of a group and its share. Create it with [New].
type Group struct {
	opts     Options
	leases   *lease.Client
	trouble  lease.Trouble
	informer *sharedinformer.Informer[*coordinationv1.Lease]
	seen     *sightings
	turn     chan struct{} // contains a token while Run is active
	wake     chan struct{} // contains a token if the keeper may have something to do

	mu      sync.Mutex // guards the fields below; no other code is called while it is held
	slots   []slot
	until   time.Time // the deadline for all work
	owned   shard.Slots
	changed chan struct{} // closed and replaced when owned changes
	status  Status
	running bool
	refused error   // why we do not take slots
	places  []place // indexed by slot, from the last call to judge; empty before that
}

// New returns a member. It fails if the options are invalid; it makes no requests. The client's scheme
// must include Lease.
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
		Timing: reflector.Timing{ // detect failures quickly, because a member takes no slots while it cannot see the others
			WatchTimeout: time.Minute, StallTimeout: opts.RenewDeadline,
			Backoff: reflector.Backoff{Max: 2 * opts.RetryPeriod},
		},
	})
	g.informer.AddHandlerWith(g.seen, sharedinformer.HandlerOptions{Name: "group " + opts.Name, OnSync: g.look})
	return g, nil
}

// look makes the keeper check everything again.
func (g *Group) look() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run participates in the group until ctx is done. It then leaves the group: it waits until the work in its
// slots has ended, hands over the slots, and deletes its Lease. Run does not fail because of server errors;
// it retries and reports them in Status.
func (g *Group) Run(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	default:
		return fmt.Errorf("membership: group %s: %w", g.opts.Name, ErrRunning)
	}
	beyond, stop := context.WithCancel(context.WithoutCancel(ctx)) // leaving the group takes longer than ctx
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

// watch cancels the work at the deadline, even if a transport or logger is blocking. Each renewal postpones
// the deadline.
func (g *Group) watch(ctx context.Context) {
	for {
		g.mu.Lock()
		left, changed := time.Until(g.until), g.changed
		if left <= 0 {
			g.loseAll(fmt.Errorf("%w: not renewed for %s", shard.ErrLost, g.opts.RenewDeadline))
			left, changed = time.Hour, g.changed
		}
		g.mu.Unlock()
		if !lease.Sleep(ctx, left, changed) { // after a change, we may have to give up slots
			return
		}
	}
}

// Owned returns this member's slots, and a channel that is closed when they change. A slot that is being
// handed over is included until the work in it has ended or the work's context is done, because the work
// may still read the slot's objects.
func (g *Group) Owned() (shard.Slots, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned, g.changed
}

// Term returns the token of this member's term in a slot, or false if it does not own the slot.
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

// Owns reports whether this member currently owns the slot that contains hash.
func (g *Group) Owns(hash uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.slots[shard.SlotOf(hash, g.opts.Slots)].phase == held && time.Now().Before(g.until)
}
