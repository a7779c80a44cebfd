package playback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/recording"
)

// If several informers have the same scope, the one with the end and the longest history is played.
func TestTheInformerThatIsPlayed(t *testing.T) {
	const minutes = time.Minute
	request := func(informer uint64, at, ended time.Duration) *recording.Request {
		return &recording.Request{Path: "/api/v1/pods", Query: "watch=true", Informer: informer, At: at, Ended: ended, Whole: ended != 0}
	}
	for name, c := range map[string]struct {
		want     uint64
		requests []*recording.Request
	}{
		"alone":                             {1, []*recording.Request{request(1, 0, minutes)}},
		"the second has stopped":            {1, []*recording.Request{request(1, 0, 0), request(2, minutes, 2*minutes)}},
		"the first has stopped":             {2, []*recording.Request{request(1, 0, minutes), request(2, 2*minutes, 0)}},
		"both were under way":               {1, []*recording.Request{request(1, 0, 0), request(2, minutes, 0)}},
		"both ended with their process":     {1, []*recording.Request{request(1, 0, 9*minutes), request(2, minutes, 9*minutes+time.Millisecond)}},
		"it went on with another request":   {1, []*recording.Request{request(1, 0, minutes), request(2, minutes, 2*minutes), request(1, minutes, 3*minutes)}},
		"of one it is unknown who it is":    {2, []*recording.Request{request(0, 0, 9*minutes), request(2, minutes, 2*minutes)}},
		"and that one begins behind others": {2, []*recording.Request{request(2, minutes, 2*minutes), request(0, 3*minutes, 4*minutes)}},
	} {
		t.Run(name, func(t *testing.T) {
			file := &recording.File{Duration: 10 * minutes, Requests: c.requests}
			found, has, err := Recorded(file, func(*recording.Request) bool { return true })
			require.NoError(t, err)
			require.Equal(t, []string{"pods"}, has)
			require.Len(t, found, 1)
			require.Equal(t, c.want, found[0].Informer)
		})
	}
}
