package debug

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// Path is where a Process expects to be served. It ends with a slash.
const Path = "/debug/millrace/"

// Options say what a Process shows. With the zero value that is its flight recorder,
// its memory and its goroutines. The functions are called anew for each answer, from any
// goroutine; those of others may panic.
type Options struct {
	// Program is what the process is called. The default is the name of its file.
	Program string

	// Informers returns them by their clusters; nil for none. See Of.
	Informers func() []Cluster

	// Controllers returns those that there are now; nil for none.
	Controllers func() []controller.View

	// Queues returns work queues that no controller has; nil for none. See QueueOf.
	Queues func() []Queue

	// Election returns how the election of a leader is going, nil where there is none.
	Election func() *leaderelection.Status

	// Groups returns those by which the process shares work with others; nil for none.
	Groups func() []Membership

	// Recorder is whose events are shown; nil is the process's.
	Recorder *flight.Recorder

	// Recording is what the process records of what its clients receive, which is handed out
	// where Contents is set, unless it has what Secrets hold. Nil is none.
	Recording *recording.Recorder

	// Contents shows whole objects, but for Secrets, to all who may ask.
	Contents bool
}

// Informers are those of one cluster. A factory.Factory has such.
type Informers interface {
	Status() []sharedinformer.Status
}

// viewed are informers of which more can be seen.
type viewed interface {
	Views() []sharedinformer.View
}

// Cluster is the informers of one cluster. The name of the own one is empty.
type Cluster struct {
	Name      string
	Informers Informers
}

// Of returns informers of a single cluster, for Options.Informers.
func Of(informers ...Informers) func() []Cluster {
	var all []Cluster
	for _, each := range informers {
		all = append(all, Cluster{Informers: each})
	}
	return func() []Cluster { return all }
}

// Queue is a work queue as those see it who look at several.
type Queue interface {
	Status() workqueue.Status
	Contents(n int) workqueue.Contents[string]
}

// QueueOf shows a queue, whose keys text writes.
func QueueOf[K comparable](q *workqueue.Queue[K], text func(K) string) Queue {
	return queueOf[K]{q, text}
}

type queueOf[K comparable] struct {
	*workqueue.Queue[K]
	text func(K) string
}

// Contents implements Queue.
func (q queueOf[K]) Contents(n int) workqueue.Contents[string] {
	return contentsOf(q.Queue.Contents(n), q.text)
}

// contentsOf writes keys as texts.
func contentsOf[K comparable](of workqueue.Contents[K], text func(K) string) workqueue.Contents[string] {
	return workqueue.Contents[string]{
		Running: heldOf(of.Running, text), Waiting: heldOf(of.Waiting, text), Delayed: heldOf(of.Delayed, text),
	}
}

func heldOf[K comparable](of []workqueue.Held[K], text func(K) string) (all []workqueue.Held[string]) {
	for _, h := range of {
		all = append(all, workqueue.Held[string]{
			Key: text(h.Key), Priority: h.Priority, Since: h.Since, Due: h.Due, Again: h.Again, Requeues: h.Requeues,
		})
	}
	return all
}

// program is the name of this process.
func (o *Options) program() string {
	return cmp.Or(o.Program, filepath.Base(slices.Concat(os.Args, []string{"unknown"})[0]))
}

func (o *Options) clusters() []Cluster {
	if o.Informers == nil {
		return nil
	}
	return o.Informers()
}

func (o *Options) controllers() []controller.View {
	if o.Controllers == nil {
		return nil
	}
	return o.Controllers()
}

func (o *Options) queues() []Queue {
	if o.Queues == nil {
		return nil
	}
	return o.Queues()
}

func (o *Options) election() *leaderelection.Status {
	if o.Election == nil {
		return nil
	}
	return o.Election()
}
