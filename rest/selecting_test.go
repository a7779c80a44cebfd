package rest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// A selector that the server rejects is dropped immediately, on all pages, and the
// caller is informed. Unrelated failures are returned as they are.
func TestSelecting(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		left    bool
	}{
		{200, "", false}, {400, "", true}, {413, "", true}, {414, "", true}, {422, "", true}, {431, "", true},
		{500, "invalid shard selector: x", true}, {500, "x", false}, {403, "", false}, {503, "", false},
	} {
		var asked []string
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			selector := r.URL.Query().Get(shardSelector)
			asked = append(asked, selector)
			w.Header().Set("Content-Type", wire.MediaJSON)
			if selector != "" && c.code != 200 {
				w.WriteHeader(c.code)
				w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + c.message + `"}`))
				return
			}
			if r.URL.Query().Get("watch") != "" {
				return
			}
			more := ""
			if r.URL.Query().Get("continue") == "" {
				more = `,"continue":"more"`
			}
			w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}],"metadata":{"resourceVersion":"1"` + more + `,"shardInfo":{"selector":"s"}}}`))
		})
		var heard []source.SelectedBy
		pods := ResourceFor[*corev1.Pod](client).Source()
		req := source.Request{Selection: source.Selection{Selector: "s", Answered: func(by source.SelectedBy) { heard = append(heard, by) }}}
		var failed error
		for _, err := range pods.List(t.Context(), req).Items {
			failed = err
		}
		_, err := pods.Watch(t.Context(), req)
		switch {
		case c.code == 200:
			require.NoError(t, failed)
			require.NoError(t, err)
			require.Equal(t, []string{"s", "s", "s"}, asked)
			require.Equal(t, []source.SelectedBy{source.SelectionNotTold, source.SelectedByServer, source.SelectionNotTold, source.SelectedByServer, source.SelectionNotTold}, heard)
		case c.left:
			require.NoError(t, failed, "%d", c.code)
			require.NoError(t, err, "%d", c.code)
			require.Equal(t, []string{"s", "", "", "s", ""}, asked, "%d", c.code)
			require.Equal(t, []source.SelectedBy{source.NotSelected, source.NotSelected}, heard, "%d", c.code)
		default:
			require.Error(t, failed, "%d", c.code)
			require.Error(t, err, "%d", c.code)
			require.Equal(t, []string{"s", "s"}, asked, "%d", c.code)
			require.Empty(t, heard, "%d", c.code)
		}
	}
}
