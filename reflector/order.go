package reflector

import "github.com/millrace-dev/millrace/object"

// Settle tells what became of a delta that was queued as Late: the consumer took it,
// because it was news, or dropped it. The first that is taken shows that the server's
// resource versions do not grow over all objects. It may be called from anywhere, but
// not under a lock: it writes a log.
func (r *Reflector) Settle(taken bool) {
	first := taken && !r.unordered.Swap(true)
	r.update(func(s *Status) {
		if s.Unordered = s.Unordered || taken; taken {
			s.Events++
		} else {
			s.Duplicates++
		}
	})
	if first {
		r.opts.Logger.Warn("the server's resource versions are not ordered: a change came with a lower one than those before it, and was news. "+
			"The cache follows; to wait for a resource version means little here", "resource", r.Name())
	}
}

// isNewer reports whether a version is not known to be one that was seen.
func (r *Reflector) isNewer(rv string) bool {
	order, err := object.CompareRV(rv, r.rv)
	return err != nil || order > 0
}

// resumeRV is the resource version from which the next watch goes on: the highest, since a
// replayed event must not move the watch back, or that of the last event where versions
// are not ordered, since only the server knows what comes after which.
func (r *Reflector) resumeRV() string {
	if r.unordered.Load() {
		return r.last
	}
	return r.rv
}
