package simulation

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where bytes are altered, the end is held to the laws that hold whatever the bytes are.
func TestFinalStateOfAGarbledRunIsChecked(t *testing.T) {
	p := &play{Schedule: Schedule{World: World{Garbled: true}}}
	p.unsettled([]string{"L17: the cache has another object", "L18: a handler has not synced"})
	assert.Equal(t, []string{"L18: a handler has not synced, after 30m0s of calm"}, p.broken)
}

// answers is a server that answers everything with one code, and asks for a wait.
type answers int

func (code answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(code), Header: http.Header{"Retry-After": {"40"}}, Body: http.NoBody}, nil
}

// A client has to wait whatever the refusal is that asks for it (L19).
func TestL19_EveryRetryAfterIsChecked(t *testing.T) {
	for _, code := range []answers{429, 500, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			p := &play{}
			m := &manners{play: p, called: "client", next: code, until: map[request]time.Time{}}
			for range 2 {
				r, err := http.NewRequest(http.MethodGet, "http://server/api/v1/pods", nil)
				require.NoError(t, err)
				answer, err := m.RoundTrip(r)
				require.NoError(t, err)
				answer.Body.Close()
			}
			assert.Equal(t, []string{"L19: client asks for GET /api/v1/pods again, 40s before the server wants it to"}, p.broken, "after %d", code)
		})
	}
}
