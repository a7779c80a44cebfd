package sharedinformer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/apiservertest"
	simulated "github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// slots is the number of slots shared by the members of a rig.
const slots = 8

// share holds the slots that one member owns, as set by the test.
type share struct {
	mu      sync.Mutex
	owned   shard.Slots
	terms   [slots]uint64
	changed chan struct{}
}

func newShare() *share {
	return &share{owned: shard.NewSlots(slots), changed: make(chan struct{})}
}

func (s *share) Owned() (shard.Slots, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned, s.changed
}

func (s *share) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := shard.SlotOf(hash, slots)
	if !s.owned.Has(n) {
		return nil, nil, shard.ErrNotOurs
	}
	return shard.WithToken(ctx, shard.Token{Slot: n, Epoch: s.terms[n]}), func() {}, nil
}

func (s *share) Term(slot int) (shard.Token, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shard.Token{Slot: slot, Epoch: s.terms[slot]}, s.owned.Has(slot)
}

// set adds or removes a slot.
func (s *share) set(slot int, ours bool, epoch uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := shard.NewSlots(slots, slot); ours {
		s.owned, s.terms[slot] = s.owned.Union(one), epoch
	} else {
		s.owned = s.owned.Without(one)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *share) has(slot int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned.Has(slot)
}

// sharing is a simulated server in a bubble, with members that share its objects.
type sharing struct {
	*testing.T
	srv      *apiservertest.Server
	endpoint *apiservertest.Endpoint
	net      *simulated.Network
	key      shard.Key
	random   *rand.Rand
	members  []*member
	epoch    uint64
	faults   bool // watches break, so that members may miss states
	upgrades bool // the server starts and stops selecting

	mu      sync.Mutex
	deleted map[types.UID]bool // before the request reached the server
	moved   map[types.UID]bool // objects whose key has ever changed
}

// member is one process: an informer, and the events of its handlers.
type member struct {
	*sharing
	*sharedinformer.Informer[*corev1.ConfigMap]
	name  string
	link  *simulated.Link
	share *share
	lost  [slots]time.Time // when it last lost each slot

	heard map[string]map[object.Key]known // by handler
}

// known is the state of an object as a handler knows it.
type known struct {
	uid   types.UID
	n     int // which state of the object it is
	since time.Time
}

func (r *sharing) join(opts sharedinformer.Options) *member {
	m := &member{sharing: r, name: fmt.Sprint("m", len(r.members)), share: newShare(), heard: map[string]map[object.Key]known{}}
	m.link = r.net.Link(m.name)
	opts.Shard = shard.Scope{Key: r.key, Share: m.share}
	m.Informer = sharedinformer.New[*corev1.ConfigMap](r.source(m.link).Source(), opts)
	m.listen("all", sharedinformer.Unbounded, 0)
	m.listen("slow", sharedinformer.Coalesce, 300*time.Millisecond)
	m.listenToHeads()
	r.members = append(r.members, m)
	return m
}

// source returns the ConfigMaps of the server, over a link.
func (r *sharing) source(link *simulated.Link) *rest.Resource[*corev1.ConfigMap] {
	scheme := runtime.NewScheme()
	require.NoError(r, corev1.AddToScheme(scheme))
	client, err := rest.NewClient(&config.Config{Host: r.endpoint.URL, Dial: link.Dialer(r.endpoint.Connect)}, scheme)
	require.NoError(r, err)
	r.Cleanup(client.CloseIdleConnections)
	return rest.ResourceFor[*corev1.ConfigMap](client)
}

// listen adds a handler whose calls take some time.
func (m *member) listen(name string, lag sharedinformer.Lag, takes time.Duration) *sharedinformer.Registration {
	m.heard[name] = map[object.Key]known{}
	return m.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(_ context.Context, e sharedinformer.Event[*corev1.ConfigMap]) error {
		m.hear(name, takes, e.Heads())
		time.Sleep(takes)
		return nil
	}), sharedinformer.HandlerOptions{Name: name, Lag: lag})
}

func (m *member) listenToHeads() {
	m.heard["heads"] = map[object.Key]known{}
	m.AddHeadHandler(sharedinformer.HandlerFunc[object.Head](func(_ context.Context, e sharedinformer.Event[object.Head]) error {
		m.hear("heads", 0, e)
		return nil
	}), sharedinformer.HandlerOptions{Name: "heads"})
}

func numberOf(o object.Head) int {
	n, _ := strconv.Atoi(o.GetLabels()["n"])
	return n
}

func (r *sharing) slotOf(o object.Head) int { return shard.SlotOf(r.key.Hash(o), slots) }

// hear checks one event against the laws.
func (m *member) hear(handler string, takes time.Duration, e sharedinformer.Event[object.Head]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, slot, key := e.Object, m.slotOf(e.Object), object.KeyOf(e.Object)
	said := fmt.Sprintf("%s of %s: %s of %s %s at %d in slot %d, moved %t", handler, m.name, e.Type, key, o.GetUID(), numberOf(o), slot, e.Moved)
	all := m.heard[handler]
	before, there := all[key]
	switch e.Type {
	case sharedinformer.Delete:
		if !there || before.uid != o.GetUID() {
			m.Errorf("%s: L03: %+v was known", said, before)
		}
		delete(all, key)
		switch {
		case !e.Moved && !m.deleted[o.GetUID()]:
			m.Errorf("%s: S03: the object was never deleted", said)
		case e.Moved && !m.moved[o.GetUID()] && takes == 0 && m.lost[slot].Before(before.since):
			m.Errorf("%s: the slot was never lost: last at %s, object since %s", said, m.lost[slot], before.since)
		}
		return
	case sharedinformer.Add:
		if there {
			m.Errorf("%s: L03: %+v was known", said, before)
		}
		before.since = time.Now()
	case sharedinformer.Update:
		switch {
		case !there || before.uid != o.GetUID():
			m.Errorf("%s: L03: %+v was known", said, before)
		case numberOf(o) <= before.n:
			m.Errorf("%s: L01: %d was told before", said, before.n)
		case !m.faults && takes == 0 && !m.moved[o.GetUID()] && numberOf(o) != before.n+1 && m.Status().Reflector.Lists == 1: // a list skips states
			m.Errorf("%s: the last one told was %d, and the slot was kept", said, before.n)
		}
	}
	if takes == 0 && !m.share.has(slot) && m.lost[slot] != time.Now() {
		m.Errorf("%s: S05: the slot is not the member's", said)
	}
	all[key] = known{o.GetUID(), numberOf(o), before.since}
}

// write changes an object.
func (r *sharing) write(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := object.Key{Namespace: "n" + name[:1], Name: name}
	have, err := r.srv.Get(configMaps, key)
	switch what := r.random.IntN(6); {
	case err != nil:
		_, err = r.srv.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: map[string]string{"n": "1", "team": r.team()}}})
	case what == 0:
		r.deleted[have.GetUID()] = true
		err = r.srv.Delete(configMaps, key)
	default:
		o := have.DeepCopyObject().(*corev1.ConfigMap)
		o.Labels = maps.Clone(o.Labels)
		o.Labels["n"] = strconv.Itoa(numberOf(have) + 1)
		if what == 1 && !r.key.Fixed() {
			r.moved[o.UID] = true
			o.Labels["team"] = r.team()
		}
		_, err = r.srv.Update(o)
	}
	require.NoError(r, err)
}

func (r *sharing) team() string { return strconv.Itoa(r.random.IntN(20)) }

// move gives a slot to a member, and takes it from its owner.
func (r *sharing) move(slot int, to *member) {
	for _, m := range r.members {
		if m.share.has(slot) {
			m.lose(slot)
		}
	}
	r.give(slot, to)
}

func (m *member) lose(slot int) {
	m.mu.Lock()
	m.lost[slot] = time.Now()
	m.mu.Unlock()
	m.share.set(slot, false, 0)
}

// give gives a free slot to a member. When the member holds the slot, its objects are no older than
// the server's are now (S04).
func (r *sharing) give(slot int, to *member) {
	r.epoch++
	floor := map[object.Key]object.Object{}
	for _, o := range r.srv.Objects(configMaps) {
		if r.slotOf(o) == slot {
			floor[object.KeyOf(o)] = o
		}
	}
	epoch := r.epoch
	to.share.set(slot, true, epoch)
	go func() {
		hash := shard.NewSlots(slots, slot).Ranges()[0].First
		err := to.WaitUntil(r.Context(), func() bool {
			to.share.mu.Lock()
			over := to.share.terms[slot] != epoch || !to.share.owned.Has(slot)
			to.share.mu.Unlock()
			return over || to.Holds(hash)
		})
		to.share.mu.Lock()
		over := to.share.terms[slot] != epoch || !to.share.owned.Has(slot)
		to.share.mu.Unlock()
		if err != nil || over {
			return
		}
		to.mu.Lock()
		defer to.mu.Unlock()
		for o := range to.Heads().All() {
			was, there := floor[object.KeyOf(o)]
			if r.slotOf(o) == slot && there && was.GetUID() == o.GetUID() && numberOf(o) < numberOf(was) {
				r.Errorf("S04: %s holds slot %d and %s at %d, when it was at %d at the hand-over", to.name, slot, object.KeyOf(o), numberOf(o), numberOf(was))
			}
			if r.slotOf(o) == slot && !there && numberOf(o) == 0 {
				r.Errorf("%s has a strange object %s", to.name, object.KeyOf(o))
			}
		}
		for key, was := range floor {
			have, there := to.Heads().Get(key)
			if !r.deleted[was.GetUID()] && !r.moved[was.GetUID()] && (!there || have.GetUID() != was.GetUID()) {
				r.Errorf("S04: %s holds slot %d and lacks %s", to.name, slot, key)
			}
		}
	}()
}
