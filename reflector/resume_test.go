package reflector

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Resume from the state a@5 b@7 c@9, which is complete up to 10.
func TestResume(t *testing.T) {
	type events = []wire.Event[object.Head]
	at := func(rv string, items ...object.Head) []answer { return []answer{{rv: rv, items: items}} }
	counted := func(rv string, left int64, items ...object.Head) []answer {
		return []answer{{rv: rv, items: items, left: &left}}
	}
	anew := answer{block: true, events: events{change(watch.Added, "n", 15), endOfInitial(20)}}
	const listedAnew = "replaced @20 n@15"
	probe, resumed, stream := `list rv="" limit=1`, `watch rv="10"`, `watch rv="" initial`
	for name, c := range map[string]struct {
		lists   []answer
		watches []answer
		queued  []string
		asked   []string
		failed  bool
	}{
		"of a server at which nothing has happened": {
			lists: at("10", obj("a", 5)), watches: []answer{{block: true, events: events{change(watch.Modified, "a", 11)}}},
			queued: []string{"replaced @10 a@5 b@7 c@9", "updated a@11"}, asked: []string{probe, resumed},
		},
		"is up to date with the change at that version": {
			lists: at("12", obj("a", 5)),
			watches: []answer{{events: events{
				change(watch.Deleted, "b", 11), change(watch.Added, "d", 12), change(watch.Modified, "a", 13),
			}}},
			queued: []string{"replaced @12 a@5 c@9 d@12", "updated a@13"}, asked: []string{probe, resumed},
		},
		"is up to date with a bookmark": {
			lists:   at("12", obj("a", 5)),
			watches: []answer{{events: events{change(watch.Bookmark, "", 11), change(watch.Bookmark, "", 14)}}},
			queued:  []string{"replaced @14 a@5 b@7 c@9"}, asked: []string{probe, resumed},
		},
		"has an object that the source does not choose any more": {
			lists: at("12", obj("a", 5)),
			watches: []answer{{events: events{
				{Type: watch.Modified, Passed: &object.Version{Key: object.Key{Name: "b"}, RV: "11"}}, change(watch.Bookmark, "", 12),
			}}},
			queued: []string{"replaced @12 a@5 c@9"}, asked: []string{probe, resumed},
		},
		"goes on where the watch ended": {
			lists:   at("12", obj("a", 5)),
			watches: []answer{{events: events{change(watch.Modified, "c", 11)}, after: 2 * time.Second, broken: io.ErrUnexpectedEOF}, {block: true, events: events{change(watch.Bookmark, "", 12)}}},
			queued:  []string{"replaced @12 a@5 b@7 c@11"}, asked: []string{probe, resumed, `watch rv="11"`}, failed: true,
		},
		"hears the same again": {
			lists:   at("12", obj("a", 5)),
			watches: []answer{{events: events{change(watch.Modified, "c", 9), change(watch.Deleted, "x", 8), change(watch.Bookmark, "", 12)}}},
			queued:  []string{"replaced @12 a@5 b@7 c@9"}, asked: []string{probe, resumed},
		},
		"whose history has expired": {
			lists: at("12", obj("a", 5)), watches: []answer{{err: apierrors.NewResourceExpired("too old")}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"whose history expires in the watch": {
			lists: at("12", obj("a", 5)), watches: []answer{{broken: apierrors.NewResourceExpired("too old")}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"of a server that went back": {
			lists: at("8", obj("a", 5)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that went back, says a bookmark": {
			lists: at("12", obj("a", 5)), watches: []answer{{block: true, events: events{change(watch.Bookmark, "", 8)}}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"of a server that has something else": {
			lists: at("12", obj("a", 4)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that has more": {
			lists: at("12", obj("0", 4)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that has nothing": {
			lists: at("10"), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that has more of the same version": {
			lists: counted("10", 3, obj("a", 5)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that has less of the same version": {
			lists: counted("10", 1, obj("a", 5)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that has one of the same version": {
			lists: counted("10", 0, obj("a", 5)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
		"of a server that has as many of the same version": {
			lists: counted("10", 2, obj("a", 5)), watches: []answer{{block: true}},
			queued: []string{"replaced @10 a@5 b@7 c@9"}, asked: []string{probe, resumed},
		},
		"comes to the right number with the change at that version": {
			lists: counted("12", 1, obj("a", 5)), watches: []answer{{events: events{change(watch.Deleted, "b", 12)}}},
			queued: []string{"replaced @12 a@5 c@9"}, asked: []string{probe, resumed},
		},
		"has the right number before the first change behind that version": {
			lists: counted("12", 2, obj("a", 5)), watches: []answer{{events: events{change(watch.Deleted, "b", 13)}}},
			queued: []string{"replaced @13 a@5 c@9"}, asked: []string{probe, resumed},
		},
		"has the right number at a bookmark": {
			lists: counted("12", 1, obj("a", 5)), watches: []answer{{events: events{change(watch.Deleted, "b", 11), change(watch.Bookmark, "", 14)}}},
			queued: []string{"replaced @14 a@5 c@9"}, asked: []string{probe, resumed},
		},
		"comes to another number with the change at that version": {
			lists: counted("12", 2, obj("a", 5)), watches: []answer{{block: true, events: events{change(watch.Deleted, "b", 12)}}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"has another number before the first change behind that version": {
			lists: counted("12", 1, obj("a", 5)), watches: []answer{{block: true, events: events{change(watch.Deleted, "b", 13)}}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"has another number at a bookmark": {
			lists: counted("12", 4, obj("a", 5)), watches: []answer{{block: true, events: events{change(watch.Deleted, "b", 11), change(watch.Bookmark, "", 14)}}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"of a server that sends an old change which is news": {
			lists: at("12", obj("a", 5)), watches: []answer{{block: true, events: events{change(watch.Modified, "b", 8)}}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"of a server that never says that this is all": {
			lists: at("12", obj("a", 5)), watches: []answer{{block: true}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, stream},
		},
		"of a server that refuses watches": {
			lists: at("12", obj("a", 5)), watches: []answer{{err: errors.New("no")}, {err: errors.New("no")}, anew},
			queued: []string{listedAnew}, asked: []string{probe, resumed, resumed, stream}, failed: true,
		},
		"of a server that is not there for a while": {
			lists:   append(slices.Repeat([]answer{{err: errors.New("connection refused")}}, 4), at("10", obj("a", 5))...),
			watches: []answer{{block: true}},
			queued:  []string{"replaced @10 a@5 b@7 c@9"}, asked: append(slices.Repeat([]string{probe}, 5), resumed), failed: true,
		},
		"of a server that cannot read from etcd": {
			lists: slices.Repeat([]answer{{err: apierrors.NewInternalError(errors.New("etcdserver: no leader"))}}, 2), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, probe, stream}, failed: true,
		},
		"of a server behind a gateway that does not reach it for a while": {
			lists:   append(slices.Repeat([]answer{{err: apierrors.NewServiceUnavailable("no upstream")}}, 4), at("10", obj("a", 5))...),
			watches: []answer{{block: true}},
			queued:  []string{"replaced @10 a@5 b@7 c@9"}, asked: append(slices.Repeat([]string{probe}, 5), resumed), failed: true,
		},
		"of a server whose versions are no numbers": {
			lists: at("new", obj("a", 5)), watches: []answer{anew},
			queued: []string{listedAnew}, asked: []string{probe, stream},
		},
	} {
		t.Run(name, func(t *testing.T) {
			items := []object.Head{obj("a", 5), obj("b", 7), obj("c", 9)}
			s := &script{lists: c.lists, watches: c.watches}
			refused := 0
			queued, r := playFrom(t, s, Options{}, &SavedState{Items: items, RV: "10", Refuse: func(why error) {
				require.Error(t, why)
				refused++
			}})
			if c.queued[0] == listedAnew && !c.failed {
				require.Equal(t, 1, refused)
			} else {
				require.Zero(t, refused)
			}
			require.Equal(t, c.queued, queued)
			require.Equal(t, c.asked, s.asked[:len(c.asked)])
			require.Equal(t, c.failed, r.Status().Failures > 0, "%v", r.Status().Failure)
			require.Equal(t, []object.Head{obj("a", 5), obj("b", 7), obj("c", 9)}, items, "which are not the reflector's")
		})
	}
}

func TestResumeOfAnotherCluster(t *testing.T) {
	for name, c := range map[string]struct {
		errs   []error
		queued string
		failed uint64
	}{
		"the same":  {[]error{nil}, "replaced @10 a@5", 0},
		"another":   {[]error{ErrForeign}, "replaced @20", 0},
		"says late": {[]error{errors.New("no answer"), nil}, "replaced @10 a@5", 1},
		"unknown":   {[]error{errors.New("no answer"), errors.New("no answer")}, "replaced @20", 2},
	} {
		t.Run(name, func(t *testing.T) {
			first := answer{rv: "10", items: []object.Head{obj("a", 5)}}
			s := &script{lists: []answer{first, first}}
			if c.queued == "replaced @20" {
				s.watches = []answer{{block: true, events: []wire.Event[object.Head]{endOfInitial(20)}}}
			}
			queued, r := playFrom(t, s, Options{}, &SavedState{Items: []object.Head{obj("a", 5)}, RV: "10", Confirm: func(context.Context) error {
				err := c.errs[0]
				c.errs = c.errs[1:]
				return err
			}})
			require.Equal(t, []string{c.queued}, queued)
			require.Equal(t, c.failed, r.Status().Failures)
		})
	}
}

// Whatever breaks, the reflector lists in the end.
func TestResumeThatPanics(t *testing.T) {
	s := &script{lists: []answer{{rv: "10"}, {rv: "10"}}, watches: []answer{{block: true, events: []wire.Event[object.Head]{endOfInitial(20)}}}}
	queued, r := playFrom(t, s, Options{}, &SavedState{RV: "10", Confirm: func(context.Context) error { panic("no") }})
	require.Equal(t, []string{"replaced @20"}, queued)
	var p *failure.PanicError
	require.ErrorAs(t, r.Status().Failure, &p)
}

// asking is a queue that reads the reflector's status when a list is added.
type asking struct {
	reflector *Reflector
	resumed   chan bool
}

func (a *asking) WaitForRoom(context.Context) error { return nil }

func (a *asking) NewHistoryQueued(string) bool { return false }

func (a *asking) Add(d deltafifo.Delta) {
	if d.Type == deltafifo.Replaced {
		a.resumed <- a.reflector.Status().Resumed
	}
}

// When a list is queued, the status already says whether it was resumed.
func TestAStateThatIsQueuedSaysWhetherItResumed(t *testing.T) {
	for name, have := range map[string]int{"resumed": 10, "listed": 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					lists:   []answer{{rv: strconv.Itoa(have), items: []object.Head{obj("a", 5)}}},
					watches: []answer{{err: apierrors.NewResourceExpired("too old")}, {block: true, events: []wire.Event[object.Head]{endOfInitial(20)}}},
				}
				q := &asking{resumed: make(chan bool, 1)}
				q.reflector = New(s, q, Options{})
				q.reflector.Resume(SavedState{Items: []object.Head{obj("a", 5)}, RV: "10"})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- q.reflector.Run(ctx) }()
				require.Equal(t, name == "resumed", <-q.resumed)
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}
