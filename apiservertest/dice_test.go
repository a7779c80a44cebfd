package apiservertest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
)

// Draws for one client or object do not depend on others.
func TestDrawsDoNotDependOnOthers(t *testing.T) {
	hits := func(others bool) (got []int) {
		inBubble(t, apiservertest.Options{Seed: 3}, func(t *testing.T, r *rig) {
			r.Faults().Add(apiservertest.Fault{Probability: 0.5, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
			for n := range 20 {
				if others {
					r.do("GET", podList, "", "User-Agent", "another")
					r.create(pod("other", fmt.Sprint(n)))
				}
				code, _, _ := r.do("GET", podList, "", "User-Agent", "me")
				got = append(got, code)
			}
		})
		return got
	}
	alone := hits(false)
	require.Contains(t, alone, 200)
	require.Contains(t, alone, 500)
	require.Equal(t, alone, hits(true))

	uids := func(names ...string) map[string]string {
		srv := apiservertest.New(apiservertest.Options{Seed: 3})
		defer srv.Close()
		found := map[string]string{}
		for _, name := range names {
			o, err := srv.Create(pod("default", name))
			require.NoError(t, err)
			found[name] = string(o.GetUID())
		}
		return found
	}
	require.Equal(t, uids("a", "b", "c"), uids("c", "a", "b"))
}
