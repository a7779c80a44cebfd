package wire

import "github.com/millrace-dev/millrace/wire/internal/share"

// A Pool lets objects share equal parts. The same environment, probes or labels
// are decoded once, and all objects that have them point to the one copy. Nobody
// may change objects that share parts (L16). Use NewPool to make one.
//
// A part is a pointer, a slice, a map or a string inside an object. A pool knows it
// by the bytes from which it was decoded, and refers to it weakly: when the last
// object that uses a part is gone, the pool forgets the part and its bytes (W03).
// A part is remembered when it is seen in a second object, so content that never
// repeats costs a hash and no memory. Sharing begins to pay with the third object
// that has a part; if there are only two, the copied bytes cost up to a tenth of
// their memory. Versions of one object in a watch do not count as different
// objects, and a part within a part that is being remembered is not remembered by
// itself.
//
// A Pool is safe for concurrent use.
type Pool struct {
	shared *share.Pool
}

// NewPool returns an empty pool. It takes about a kilobyte, and grows with the
// number of parts in use.
func NewPool() *Pool { return &Pool{shared: share.NewPool()} }

// Forget makes the pool forget all parts. Call it when somebody has changed a
// shared part in spite of L16: objects decoded later get none of the parts known
// now. Objects that have such parts keep them.
func (p *Pool) Forget() { p.shared.Forget() }

// Len returns the number of parts that the pool knows now.
func (p *Pool) Len() int { return p.shared.Len() }

// inner returns the pool as decoders use it. A nil Pool has none.
func (p *Pool) inner() *share.Pool {
	if p == nil {
		return nil
	}
	return p.shared
}
