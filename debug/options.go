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

// Path is the URL path where a [Process] must be served. It ends with a slash.
const Path = "/debug/millrace/"

// Options selects what a [Process] shows. With the zero value, it shows only the flight recorder, memory and
// goroutines. The functions are called for each response, possibly concurrently, and may panic.
type Options struct {
	// Program is the name of the process. The default is the name of the executable.
	Program string

	// Informers returns the informers by cluster. It may be nil. See [Of].
	Informers func() []Cluster

	// Controllers returns the current controllers. It may be nil.
	Controllers func() []controller.View

	// Queues returns the work queues that do not belong to a controller. It may be nil. See [QueueOf].
	Queues func() []Queue

	// Election returns the status of the leader election, or nil if there is none.
	Election func() *leaderelection.Status

	// Groups returns the groups the process is a member of. It may be nil.
	Groups func() []Membership

	// Recorder is the source of events. The default is the process-wide recorder.
	Recorder *flight.Recorder

	// Recording is the recording made by the process's clients, if any. It is served only if Contents is
	// set, and never if it contains Secrets.
	Recording *recording.Recorder

	// Contents makes whole objects, except Secrets, visible to every client that has access.
	Contents bool
}

// Informers provides the informers of one cluster. It is implemented by factory.Factory.
type Informers interface {
	Status() []sharedinformer.Status
}

// viewed is implemented by any [Informers] that also provides access to the caches.
type viewed interface {
	Views() []sharedinformer.View
}

// Cluster is a named cluster and its informers. The name of the process's own cluster is empty.
type Cluster struct {
	Name      string
	Informers Informers
}

// Of returns a function for use as Options.Informers. It returns the informers of a single cluster.
func Of(informers ...Informers) func() []Cluster {
	var all []Cluster
	for _, each := range informers {
		all = append(all, Cluster{Informers: each})
	}
	return func() []Cluster { return all }
}

// Queue is a work queue with keys of any type. Create one with [QueueOf].
type Queue interface {
	Status() workqueue.Status
	Contents(n int) workqueue.Contents[string]
}

// QueueOf returns a [Queue] for q. text formats its keys.
func QueueOf[K comparable](q *workqueue.Queue[K], text func(K) string) Queue {
	return queueOf[K]{q, text}
}

type queueOf[K comparable] struct {
	*workqueue.Queue[K]
	text func(K) string
}

func (q queueOf[K]) Contents(n int) workqueue.Contents[string] {
	return contentsOf(q.Queue.Contents(n), q.text)
}

// contentsOf formats keys.
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

// program returns the process name to show.
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
