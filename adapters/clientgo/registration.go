package clientgo

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// registration is a handler registered on an informer. It implements cache.ResourceEventHandlerRegistration,
// and the ShutdownChan that cache.ShutDownEventHandler needs.
type registration struct {
	informer *informer
	handler  cache.ResourceEventHandler
	place    string        // file:line of the call that added the handler
	logger   *klog.Logger  // from cache.HandlerOptions; nil to use the context's
	resync   time.Duration // as requested; see informer.period

	synced *done
	ended  chan struct{} // closed after the handler's last call
	end    sync.Once

	inner *sharedinformer.Registration // nil until the informer runs; guarded by informer.mu
}

// HasSynced reports whether the handler's last initial OnAdd has returned.
func (r *registration) HasSynced() bool { return r.synced.has() }

// HasSyncedChecker is like HasSynced, but returns a cache.DoneChecker.
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.synced }

// ShutdownChan returns a channel that is closed when the handler has been removed, or the informer has
// stopped, and the last call has returned.
func (r *registration) ShutdownChan() <-chan struct{} { return r.ended }

func (r *registration) finished() { r.end.Do(func() { close(r.ended) }) }

// Handle implements sharedinformer.Handler. As in client-go, panics are passed to utilruntime.PanicHandlers
// with the handler's logger. They then propagate to the informer, which counts them and crashes the process
// if utilruntime.ReallyCrash is set.
func (r *registration) Handle(ctx context.Context, e sharedinformer.Event[object.Object]) error {
	if r.logger != nil {
		ctx = klog.NewContext(ctx, *r.logger)
	}
	defer func() {
		if p := recover(); p != nil {
			// Skip the frames of the handler, this function and the runtime to reach the line that panicked.
			ctx := klog.NewContext(ctx, klog.FromContext(ctx).WithCallDepth(3))
			for _, hear := range utilruntime.PanicHandlers {
				hear(ctx, p)
			}
			panic(p)
		}
	}()
	o := bare(e.Object)
	switch e.Type {
	case sharedinformer.Add:
		r.handler.OnAdd(o, e.Initial)
	case sharedinformer.Update:
		r.handler.OnUpdate(bare(e.Old), o)
	case sharedinformer.Resync:
		r.handler.OnUpdate(o, o)
	case sharedinformer.Delete:
		r.gone(e, o)
	}
	return nil
}

// gone tells the handler that an object has left the cache.
func (r *registration) gone(e sharedinformer.Event[object.Object], o object.Object) {
	switch {
	case e.Moved:
		if h, ok := r.handler.(MoveHandler); ok {
			h.OnMoved(o)
		}
	case e.FinalStateUnknown:
		r.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: object.FormatKey(object.KeyOf(o)), Obj: o})
	default:
		r.handler.OnDelete(o)
	}
}

// caller returns the file:line that added a handler, skipping packages that only pass the handler on. If
// there are no other callers, as with controller-runtime's sources, it returns the outermost of the
// skipped ones.
func caller() (place string) {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.goexit" {
			return place
		}
		parts := strings.Split(frame.File, "/")
		place = strings.Join(parts[max(0, len(parts)-2):], "/") + ":" + strconv.Itoa(frame.Line)
		passing := strings.HasPrefix(frame.Function, "k8s.io/client-go/") ||
			strings.HasPrefix(frame.Function, "sigs.k8s.io/controller-runtime/") ||
			strings.HasPrefix(frame.Function, "github.com/millrace-dev/millrace/adapters/clientgo.") ||
			strings.HasPrefix(frame.Function, "github.com/millrace-dev/millrace/adapters/controllerruntime.")
		if !passing || !more {
			return place
		}
	}
}
