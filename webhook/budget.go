package webhook

import (
	"errors"
	"io"
	"sync/atomic"
)

// The API server does not identify itself, so anyone who can reach the port can send reviews.
const (
	// maxAdmission limits the bytes of an admission review. The API server accepts requests of 3 MiB;
	// a review may hold two objects of that size, and JSON may escape a character with six bytes.
	maxAdmission = 16 << 20

	// maxConversion limits the bytes of a conversion review. The API server sends up to 10,000 objects
	// at once.
	maxConversion = 256 << 20

	// objectWeight is the minimum memory that an object in a conversion takes. Objects from the API
	// server have at least about as many bytes of JSON.
	objectWeight = 256

	// maxDecoded limits the decoded bytes of an admission review, or of one object of a conversion.
	maxDecoded = 4 * maxAdmission

	// userWeight is the memory needed per byte of JSON of the user: an empty group takes three bytes of
	// JSON but 16 in a growing slice, and a key of extra takes more.
	userWeight = 16

	// admissionBudget and conversionBudget limit the bytes of reviews that a server holds at a time,
	// including reviews that are still being read. A review takes its bytes of JSON or its weight,
	// whichever is larger. A conversion takes, for each object, its weight while it is converted, and
	// then the size of the result.
	admissionBudget  = 4 * (maxAdmission + 1) // with the extra byte that readAll reads
	conversionBudget = 2*maxConversion + 1 + maxDecoded

	// firstRead is the amount that a body takes from the budget before its first byte arrives. Whenever
	// that amount has been read, it doubles.
	firstRead = 8 << 10
)

// errFull means that the budget is used up.
var errFull = errors.New("too many reviews are being answered: try again later")

// budget is the number of bytes that may still be taken. A nil budget is unlimited.
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

// readAll reads a body from a reader that fails beyond limit. It takes from the budget what has arrived,
// not what the client announces, plus at most one byte beyond limit, to detect the end. The caller must
// return taken to the budget when it is done with the body, even after an error.
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
