package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// patience bounds how long anything may take. What takes longest is to notice that a
// connection is dead, 45 s, and busy machines are slower.
const patience = 3 * time.Minute

// world is the cluster and all who live on it.
type world struct {
	*cluster
	random     *rand.Rand
	namespaces []string
	clients    map[string]*rest.Client // by the name of the link
	subjects   []subject
	stopAll    []func() // from the last to the first
	stop       func()   // ends all that lives on the cluster

	busy       *workload
	candidates *candidates
	office     *office

	begin atomic.Pointer[time.Time] // of the episode

	heard, failed atomic.Int64 // calls of witnesses; failures that informers reported

	mu         sync.Mutex // guards complaints
	complaints []string
}

// newWorld starts everybody, and returns when all is well.
func newWorld(t *testing.T, seed uint64) *world {
	w := &world{cluster: newCluster(t), random: rand.New(rand.NewPCG(seed, 42))}
	w.begin.Store(new(time.Now()))
	for n := range 4 {
		made, err := rest.ResourceFor[*corev1.Namespace](w.direct[0]).Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("torture-", n)}}, metav1.CreateOptions{})
		require.NoError(t, err)
		w.namespaces = append(w.namespaces, made.Name)
	}
	w.define(t.Context(), 1)
	w.clients = map[string]*rest.Client{}
	for by, cfg := range map[string]*config.Config{"front": w.byToken(), "certs": w.byCertificate()} {
		client, err := rest.NewClient(cfg, newScheme())
		require.NoError(t, err)
		w.clients[by] = client
		w.stopAll = append(w.stopAll, client.CloseIdleConnections)
	}
	w.followAll()
	for _, f := range w.subjects {
		f.start()
		w.stopAll = append(w.stopAll, f.stop)
	}
	w.busy = newWorkload(w, seed)
	w.candidates = newCandidates(w)
	w.office = newOffice(w)
	w.stop = sync.OnceFunc(func() {
		w.busy.stop()
		w.office.stop()
		w.candidates.stop()
		for _, stop := range slices.Backward(w.stopAll) {
			stop()
		}
	})
	t.Cleanup(w.stop) // before that of the cluster
	return w
}

// began is when the episode began.
func (w *world) began() time.Time { return *w.begin.Load() }

// complain notes that something is wrong. The torture goes on.
func (w *world) complain(format string, args ...any) {
	w.t.Errorf("%7.1fs "+format, append([]any{time.Since(w.began()).Seconds()}, args...)...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaints = append(w.complaints, fmt.Sprintf(format, args...))
}

func (w *world) failures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.complaints)
}

// until asks again and again, until nothing is answered or the time is over. It returns
// the last answer.
func until(within time.Duration, ask func() string) string {
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		if answer := ask(); answer == "" || time.Now().After(end) {
			return answer
		}
	}
}

// saying is how long a fault may last until everybody has told of it.
const saying = 30 * time.Second

// informersSay wants of every informer on some links that its status or a failure since
// the begin of the episode says some words.
func (w *world) informersSay(words string, by ...string) {
	w.t.Helper()
	pattern := regexp.MustCompile(words)
	answer := until(saying, func() string {
		for _, f := range w.subjects {
			if len(by) > 0 && !slices.Contains(by, f.route()) {
				continue
			}
			if other := f.said(w.began(), pattern); other != "" {
				return other
			}
		}
		return ""
	})
	if answer != "" {
		w.complain("want %q, but %s", words, answer)
	}
}

// again does something now and then until another thing has been done.
func (w *world) again(every time.Duration, do, until func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			do()
			select {
			case <-time.After(every):
			case <-done:
				return
			}
		}
	}()
	until()
	close(done)
	<-stopped
}

// anybodySays is informersSay of one informer at least: of a fault that does not concern
// those that are quiet.
func (w *world) anybodySays(words string) {
	w.t.Helper()
	pattern := regexp.MustCompile(words)
	answer := until(saying, func() (all string) {
		for _, f := range w.subjects {
			other := f.said(w.began(), pattern)
			if other == "" {
				return ""
			}
			all += "\n" + other
		}
		return all
	})
	if answer != "" {
		w.complain("want %q, but %s", words, answer)
	}
}

// lateSays starts an informer on a link and wants some words of what WaitForSync
// returns.
func (w *world) lateSays(words, by string) {
	w.t.Helper()
	if err := w.late(by, 5*time.Second); err == nil || !regexp.MustCompile(words).MatchString(err.Error()) {
		w.complain("WaitForSync of an informer that began during it returned %v, want %q", err, words)
	}
}

// late starts an informer with a client of its own, and returns what WaitForSync does.
func (w *world) late(by string, within time.Duration) error {
	cfg := w.byToken()
	if by == "certs" {
		cfg = w.byCertificate()
	}
	client, err := rest.NewClient(cfg, newScheme())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	opts := sharedinformer.Options{SyncPatience: 2 * time.Second}
	opts.Timing.Backoff = brisk
	i := sharedinformer.New[*corev1.ConfigMap](rest.ResourceFor[*corev1.ConfigMap](client).Source(), opts)
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := i.Start(ctx)
	if err != nil {
		cancel()
		return err
	}
	waiting, stop := context.WithTimeout(ctx, within)
	err = i.WaitForSync(waiting)
	stop()
	cancel()
	if ended := wait(); ended != nil {
		w.complain("an informer that began during it ended with %v", ended)
	}
	return err
}

// slow is how long it may take until it is worth a line.
const slow = 5 * time.Second

// converges waits until everybody has what the server has, and says how long it took.
func (w *world) converges() (took time.Duration) {
	healed := time.Now()
	w.busy.rest()
	defer w.busy.resume()
	next, late := 0, ""
	answer := until(patience, func() (answer string) {
		defer func() {
			if time.Since(healed) > slow && answer != "" && late == "" {
				late = answer
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if answer := w.office.differs(ctx); answer != "" {
			return answer
		}
		for next < len(w.subjects) { // the office is done: nobody writes
			if answer := w.subjects[next].differs(ctx); answer != "" {
				return answer
			}
			next++
		}
		return w.candidates.differs()
	})
	if late != "" {
		fmt.Printf("     %v after it: %s\n", slow, late)
	}
	if answer != "" {
		w.complain("not the same %v after all was healed: %s", patience, answer)
	}
	// Once more: who was equal at first may have been told something since.
	for _, f := range w.subjects {
		if answer := until(5*time.Second, func() string { return f.differs(context.Background()) }); answer != "" {
			w.complain("it was equal, and is no longer: %s", answer)
		}
	}
	return time.Since(healed)
}

// lasting is a context that ends when everybody is to stop.
func (w *world) lasting() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

// gadgetKind is the custom resource.
var gadgetKind = object.GVK{Group: "torture.example.com", Version: "v1", Kind: "Gadget"}

func join(stacks []string) string { return strings.Join(stacks, "\n\n") }
