package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/adapters/clientgo"
)

// opaque is a source with a history, whose versions are not numbers, and which supports neither
// pages nor bookmarks.
type opaque struct {
	mu      sync.Mutex
	history []watch.Event
	probed  func() // before a list of one item
	live    *watch.RaceFreeFakeWatcher
	from    []string
}

func (o *opaque) put(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := watch.Event{Type: watch.Added, Object: versioned(name, fmt.Sprintf("v%d", len(o.history)+1))}
	o.history = append(o.history, e)
	if o.live != nil {
		o.live.Action(e.Type, e.Object)
	}
}

// end ends the watch in progress, as a server does at its timeout.
func (o *opaque) end() {
	o.mu.Lock()
	live := o.live
	o.live = nil
	o.mu.Unlock()
	live.Stop()
}

func (o *opaque) List(opts metav1.ListOptions) (runtime.Object, error) {
	if opts.Limit == 1 && o.probed != nil {
		o.probed()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprintf("v%d", len(o.history))}}
	for _, e := range o.history {
		l.Items = append(l.Items, *e.Object.(*corev1.Pod))
	}
	return l, nil
}

func (o *opaque) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	if opts.SendInitialEvents != nil {
		return nil, errors.New("no streaming list")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from = append(o.from, opts.ResourceVersion)
	from, err := strconv.Atoi(strings.TrimPrefix(opts.ResourceVersion, "v"))
	if err != nil {
		return nil, err
	}
	o.live = watch.NewRaceFreeFake()
	for _, e := range o.history[from:] {
		o.live.Action(e.Type, e.Object)
	}
	return o.live, nil
}

// Changes between the end of a quiet watch and the check whether the server went back are not
// missed (L17).
func TestL17_CheckingTheServerSkipsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &opaque{}
		o.put("a")
		i := clientgo.NewInformer(o, &corev1.Pod{}, 0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		defer runs.Wait()
		defer cancel()
		runs.Go(func() { i.RunWithContext(ctx) })
		settle(3 * time.Minute)
		require.Equal(t, []string{"shop/a"}, keys(i.GetStore()))
		o.probed = sync.OnceFunc(func() { o.put("b") })
		o.end()
		settle(time.Hour)
		require.Equal(t, []string{"shop/a", "shop/b"}, keys(i.GetStore()))
	})
}

// paged is a source of objects without versions, in a paged list that has a version.
type paged struct{ handmade }

func (p *paged) List(opts metav1.ListOptions) (runtime.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, opts)
	l := podList("3")
	first, _ := strconv.Atoi(opts.Continue)
	for n := first; n < 10; n++ {
		if opts.Limit > 0 && int64(len(l.Items)) == opts.Limit {
			l.Continue = strconv.Itoa(n)
			break
		}
		l.Items = append(l.Items, *pod(fmt.Sprint("p", n)))
	}
	return l, nil
}

// A locally generated number is not compared with a version of the server.
func TestL19_NumbersAreNotComparedWithVersions(t *testing.T) {
	p := &paged{}
	bubbleOf(t, &p.handmade, p, &corev1.Pod{}, func(i cache.SharedIndexInformer, d *diary) {
		require.Len(t, d.read(), 10)
		settle(3 * time.Minute)
		p.again()
		settle(time.Minute)
		s, _ := clientgo.Status(i)
		require.Nil(t, s.Reflector.Failure)
		require.Zero(t, s.Reflector.Failures)
	})
}
