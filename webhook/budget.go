package webhook

import (
	"errors"
	"io"
	"sync/atomic"
)

// The API server does not identify itself, so anybody that reaches the port can
// send a review.
const (
	// maxAdmission is the largest admission review that is read. The API server
	// reads 3 MiB of a request; a review may hold two objects of that size, and
	// JSON writes some characters with six.
	maxAdmission = 16 << 20

	// maxConversion is the largest conversion review that is read. The API server
	// has up to 10,000 objects converted at once.
	maxConversion = 256 << 20

	// objectWeight is what an object of a conversion takes in memory at least. Those of
	// the API server have more bytes in the body, or about as many.
	objectWeight = 256

	// maxDecoded is how many bytes an admission review, or an object of a conversion, may take
	// in memory when it is decoded.
	maxDecoded = 4 * maxAdmission

	// userWeight is what a byte of the user takes: an empty group is three in the body
	// and 16 in a slice that grows, and a key of extra needs more.
	userWeight = 16

	// admissionBudget and conversionBudget are how many bytes of reviews a server
	// holds at one time, those that it works on included. A review takes as many as its
	// body has, or as it weighs, whichever is more. One of a conversion takes for each
	// object what that weighs, as long as it is converted, and then what it has become.
	admissionBudget  = 4 * (maxAdmission + 1) // with the byte that readAll reads beyond it
	conversionBudget = 2*maxConversion + 1 + maxDecoded

	// firstRead is what a body takes from the budget before its first byte has
	// come. After that it takes as much again whenever it is full.
	firstRead = 8 << 10
)

// errFull: the budget is used up.
var errFull = errors.New("too many reviews are being answered: try again later")

// budget is what is left of a number of bytes. A nil budget has no end.
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

// readAll reads a body, from a reader that fails beyond limit. It takes what it holds
// from the budget: what has come, and not what the caller says will come; no more than
// a byte beyond limit, where the reader says that it has ended. The caller gives taken
// back when it is done with the body, also after an error.
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
