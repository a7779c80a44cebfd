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

// patience is the time limit for any condition. Noticing a dead connection takes longest, 45 s, and
// busy machines are slower.
const patience = 3 * time.Minute

// world is the cluster and all its clients.
type world struct {
	*cluster
	random     *rand.Rand
	namespaces []string
	clients    map[string]*rest.Client // by link name
	subjects   []subject
	stopAll    []func() // called in reverse order
	stop       func()   // stops all clients of the cluster

	busy       *workload
	candidates *candidates
	office     *office

	begin atomic.Pointer[time.Time] // of the episode

	heard, failed atomic.Int64 // calls of witnesses; failures that informers reported

	mu         sync.Mutex // guards complaints
	complaints []string
}

// newWorld starts all clients, and returns when they are synced.
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
	t.Cleanup(w.stop) // before the cleanup of the cluster
	return w
}

// began returns when the episode began.
func (w *world) began() time.Time { return *w.begin.Load() }

// complain records a defect. The torture continues.
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

// until calls ask repeatedly until it returns "" or the time is up. It returns the last result.
func until(within time.Duration, ask func() string) string {
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		if answer := ask(); answer == "" || time.Now().After(end) {
			return answer
		}
	}
}

// saying is the time within which every client must report a fault.
const saying = 30 * time.Second

// informersSay requires that every informer on some links has reported the words, in its status or
// in a failure since the beginning of the episode.
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

// again repeats do at intervals until the function until returns.
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

// anybodySays is informersSay for at least one informer: for a fault that does not concern idle
// ones.
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

// lateSays starts an informer on a link and requires the words in the error of WaitForSync.
func (w *world) lateSays(words, by string) {
	w.t.Helper()
	if err := w.late(by, 5*time.Second); err == nil || !regexp.MustCompile(words).MatchString(err.Error()) {
		w.complain("WaitForSync of an informer that began during it returned %v, want %q", err, words)
	}
}

// late starts an informer with its own client, and returns the error of WaitForSync.
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

// slow is the duration from which a convergence is logged.
const slow = 5 * time.Second

// converges waits until all clients have the state of the server, and returns how long it took.
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
		for next < len(w.subjects) { // the office is idle: there are no writes
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
	// Check again: a client that was equal at first may have received something since.
	for _, f := range w.subjects {
		if answer := until(5*time.Second, func() string { return f.differs(context.Background()) }); answer != "" {
			w.complain("it was equal, and is no longer: %s", answer)
		}
	}
	return time.Since(healed)
}

// lasting returns a context that ends when all clients must stop.
func (w *world) lasting() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

// gadgetKind is the custom resource.
var gadgetKind = object.GVK{Group: "torture.example.com", Version: "v1", Kind: "Gadget"}

func join(stacks []string) string { return strings.Join(stacks, "\n\n") }
