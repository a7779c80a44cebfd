package webhook

import (
	"errors"
	"io"
	"sync/atomic"
)

// These limits exist because the API server does not authenticate itself, so anyone who can reach the port
// can send reviews.
const (
	// maxAdmission limits the size of an admission review in bytes. The API server accepts requests of up
	// to 3 MiB; a review may contain two objects of that size, and JSON may encode a character as a
	// six-byte escape.
	maxAdmission = 16 << 20

	// maxConversion limits the size of a conversion review in bytes. The API server sends up to 10,000
	// objects at once.
	maxConversion = 256 << 20

	// objectWeight is the minimum memory used per object in a conversion. Objects from the API server have
	// at least about this many bytes of JSON.
	objectWeight = 256

	// maxDecoded limits the decoded size of an admission review, or of one object in a conversion.
	maxDecoded = 4 * maxAdmission

	// userWeight is the memory needed per byte of JSON in the user info: an empty group takes up three
	// bytes of JSON but 16 in a growing slice, and a key in extra takes up even more.
	userWeight = 16

	// admissionBudget and conversionBudget limit the total size of the reviews that a server has in memory
	// at any time, including those still being read. A review's size is that of its JSON or its weight,
	// whichever is larger. In a conversion, each object's weight is added while it is being converted, and
	// then the size of its result.
	admissionBudget  = 4 * (maxAdmission + 1) // allows for the extra byte that readAll reads
	conversionBudget = 2*maxConversion + 1 + maxDecoded

	// firstRead is the number of bytes reserved from the budget before the first byte of a body arrives.
	// The reservation is doubled whenever that many bytes have been read.
	firstRead = 8 << 10
)

// errFull means that the budget is exhausted.
var errFull = errors.New("too many reviews are in progress: try again later")

// budget is the number of bytes still available. A nil budget is unlimited.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := &budget{}
	b.left.Store(bytes)
	return b
}

func (b *budget) take(n int64) bool {
	if b == nil || b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *budget) give(n int64) {
	if b != nil {
		b.left.Add(n)
	}
}

// readAll reads a body from a reader that returns an error beyond limit. It reserves budget as bytes
// arrive, ignoring the declared length, and may read one byte beyond limit to detect the end. The caller
// must return taken to the budget once it is done with the body, even after an error.
func (b *budget) readAll(r io.Reader, limit int64) (body []byte, taken int64, err error) {
	for {
		if len(body) == cap(body) {
			more := max(int64(cap(body)), firstRead)
			if int64(cap(body))+more >= limit {
				more = limit + 1 - int64(cap(body))
			}
			if !b.take(more) {
				return nil, taken, errFull
			}
			taken += more
			grown := make([]byte, len(body), int64(cap(body))+more)
			copy(grown, body)
			body = grown
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			return body, taken, nil
		case err != nil:
			return nil, taken, err
		}
	}
}
