package apiservertest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
)

// follower applies the events of a watch to a map from key to version, and checks the
// rules of a watch: versions rise, nothing is added twice, and only existing objects
// are changed or deleted.
type follower struct {
	path  string
	known map[string]string
	err   error
}

func (f *follower) follow(body io.Reader) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for f.err == nil && lines.Scan() {
		var e event
		if f.err = json.Unmarshal(lines.Bytes(), &e); f.err != nil {
			return
		}
		m := e.Object.Metadata
		key := m.Namespace + "/" + m.Name
		_, exists := f.known[key]
		switch {
		case e.Type == "ADDED" && !exists, e.Type == "MODIFIED" && exists && f.known[key] < m.ResourceVersion:
			f.known[key] = m.ResourceVersion
		case e.Type == "DELETED" && exists:
			delete(f.known, key)
		default:
			f.err = fmt.Errorf("%s: %v, but %s is known at %q", f.path, e, key, f.known[key])
		}
	}
}

// TestWatchersEndUpWithTheTruth runs random writes against watches with different
// scopes, selectors and start versions, and compares the resulting state of each with a
// list.
func TestWatchersEndUpWithTheTruth(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, apiservertest.Options{Seed: seed, FirstRV: 1_000_000, History: 50}, func(t *testing.T, r *rig) {
				random := rand.New(rand.NewPCG(seed, 1))
				var followers []*follower
				var bodies []*http.Response
				for step := range 400 {
					r.randomWrite(random)
					if step%40 == 0 {
						path := "/api/v1/pods?" + [...]string{
							"", "labelSelector=app%3Da", "fieldSelector=status.phase%3DPending", "labelSelector=app+notin+(b)",
						}[random.IntN(4)]
						if random.IntN(2) == 0 {
							path = "/api/v1/namespaces/n1" + path[len("/api/v1"):]
						}
						f, body := r.join(path)
						followers, bodies = append(followers, f), append(bodies, body)
					}
					if step%7 == 0 {
						synctest.Wait() // let the watches catch up: History is short
					}
				}
				synctest.Wait()
				for i, f := range followers {
					require.NoError(t, f.err)
					require.Equal(t, r.versions(f.path), f.known, "seed %d: %s", seed, f.path)
					bodies[i].Body.Close()
				}
			})
		})
	}
}

// randomWrite makes a random change to one of a few pods.
func (r *rig) randomWrite(random *rand.Rand) {
	r.t.Helper()
	p := pod([...]string{"n1", "n2"}[random.IntN(2)], fmt.Sprint("p", random.IntN(8)), "app", [...]string{"a", "b", "c"}[random.IntN(3)])
	if random.IntN(3) == 0 {
		p.Status.Phase = "Running"
	}
	if random.IntN(4) == 0 {
		// It may not exist, which does not matter.
		_ = r.Delete(pods, keyOf(p.Namespace, p.Name))
		return
	}
	_, err := r.Put(p)
	require.NoError(r.t, err)
}

// join starts a follower with a list, like a client.
func (r *rig) join(path string) (*follower, *http.Response) {
	r.t.Helper()
	f := &follower{path: path, known: r.versions(path)}
	rv := r.list(path).Metadata.ResourceVersion
	resp := r.open("GET", path+"&watch=1&resourceVersion="+rv, "")
	go f.follow(resp.Body)
	return f, resp
}

// versions lists a path in pages.
func (r *rig) versions(path string) map[string]string {
	r.t.Helper()
	found := map[string]string{}
	for token := ""; ; {
		l := r.list(path + "&limit=3&continue=" + token)
		for _, item := range l.Items {
			found[item.Metadata.Namespace+"/"+item.Metadata.Name] = item.Metadata.ResourceVersion
		}
		if token = l.Metadata.Continue; token == "" {
			return found
		}
	}
}
