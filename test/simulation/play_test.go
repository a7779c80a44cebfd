package simulation

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If bytes are altered, the final state must satisfy only the laws that hold for any bytes.
func TestFinalStateOfAGarbledRunIsChecked(t *testing.T) {
	p := &play{Schedule: Schedule{World: World{Garbled: true}}}
	p.unsettled([]string{"L17: the cache has another object", "L18: a handler has not synced"})
	assert.Equal(t, []string{"L18: a handler has not synced, after 30m0s of calm"}, p.broken)
}

// answers is a server that answers every request with one code and a Retry-After.
type answers int

func (code answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(code), Header: http.Header{"Retry-After": {"40"}}, Body: http.NoBody}, nil
}

// A client must wait for Retry-After with any refusal (L19).
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
			assert.Equal(t, []string{"L19: client retried GET /api/v1/pods 40s before the server allows it"}, p.broken, "after %d", code)
		})
	}
}
