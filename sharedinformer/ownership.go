package sharedinformer

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// followShard makes the informer follow changes to a scope, unless the scope owns everything. It is called by
// newCore.
func (i *core) followShard(by shard.Scope) {
	if by.Everything() {
		return
	}
	i.ownership = sharding.New(by, sharding.Hooks{
		CallShare:   i.callShare,
		ShareFailed: func(err error) { i.reportNow(&failure.Failure{Phase: failure.PhaseHook, Err: err}) },
		Lost: func(slots shard.Slots) {
			i.queue.Add(deltafifo.Delta{Type: deltafifo.Drop, Part: &deltafifo.Part{Lost: slots}})
		},
		Gained: func() {
			for _, f := range i.feeds.all() {
				f.reflector.Relist(nil)
			}
		},
		MayHave: i.mayHave,
	})
	if err := checkDivisible(by, i.from); err != nil {
		now := time.Now()
		i.feeds.refused = &failure.Failure{Resource: i.from.Name, Phase: failure.PhaseOptions, Attempts: 1, Since: now, Last: now, Err: err}
	}
}

// checkDivisible returns an error if a scope cannot divide a source's objects.
func checkDivisible(by shard.Scope, from source.Description) error {
	if err := by.Err(); err != nil {
		return fmt.Errorf("Options.Shard: %w", err)
	}
	if by.Key.Fixed() {
		return nil
	}
	if from.Altered {
		return fmt.Errorf("Options.Shard: objects go through a transform, but dividing by %s requires unmodified objects: divide by UID or namespace", by.Key)
	}
	for _, field := range by.Key.Fields() {
		if !from.Kept.KeepsAll(field) {
			return fmt.Errorf("Options.Shard: dividing by %s needs %s, which is not kept: keep it, or divide by UID or namespace", by.Key, field)
		}
	}
	return nil
}

// callShare calls one of the share's methods. If the call does not return, that shows up in the status.
func (i *core) callShare(do func()) error {
	name := fmt.Sprintf("the methods of the share (%T)", i.ownership.Share)
	slow := time.AfterFunc(slowCall, func() {
		_ = i.completeFailure(&failure.Failure{Phase: failure.PhaseHook, Err: fmt.Errorf("%s have not returned for %s: no slot is gained or lost until they do", name, slowCall)})
	})
	defer slow.Stop()
	return i.callHook(name, nil, do)
}

// mayHave reports whether an object is in the cache, or may be added to it by a queued delta.
func (i *core) mayHave(v object.Version) bool {
	if !i.queue.Idle() {
		return true
	}
	if have, cached := i.cache.Peek(v.Key); cached {
		return have.GetUID() == v.UID
	}
	return !i.cache.Absent(v.Key) // an index may be under construction
}

func (i *core) Scope() shard.Scope {
	if i.ownership == nil {
		return shard.Scope{}
	}
	return i.ownership.Scope
}

func (i *core) Holds(hash uint64) bool { return i.HoldsIn(hash, metav1.NamespaceAll) }

func (i *core) HoldsIn(hash uint64, namespace string) bool {
	if i.ownership == nil {
		return i.HasSyncedIn(namespace)
	}
	since, feeds := i.ownership.Terms().SinceOf(hash), i.feeds.all()
	if namespace != metav1.NamespaceAll {
		covering := feedCovering(feeds, namespace)
		if feeds = nil; covering != nil {
			feeds = []*feed{covering}
		}
	}
	for _, f := range feeds {
		if f.heldGains.Load() < since {
			return false
		}
	}
	return since > 0 && i.broken.Load() == nil
}

// selection reports whether the server or the client selects the owned objects.
func (i *core) selection() shard.Selection {
	if i.ownership == nil {
		return shard.SelectionNone
	}
	var all []*sharding.Requests
	for _, f := range i.feeds.all() {
		all = append(all, f.requests)
	}
	return sharding.Selection(all)
}
