package canary

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// recording adds the contents of a recording.
func (l *ledger) recording(t *testing.T, path string) {
	t.Helper()
	file, err := recording.Open(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Damage)
	require.NotEmpty(t, file.Requests)
	replay := file.Replay(recording.ReplayOptions{Speed: math.Inf(1)})
	for _, q := range file.Requests {
		l.say("recording", fmt.Sprintf("%+v", *q))
		body, err := io.ReadAll(file.Body(q))
		require.NoError(t, err)
		l.say("recording", string(body))
		if !q.Whole || q.Withheld {
			continue
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, q.Server+q.Path+"?"+q.Query, nil)
		require.NoError(t, err)
		resp, err := replay.RoundTrip(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		l.err("recording", err)
	}
}

// A recording contains the data of Secrets only if the option says so.
func TestARecordingWithoutSecrets(t *testing.T) {
	for _, include := range []bool{false, true} {
		said := newLedger()
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		_, err = srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "a", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: canaries["config"]},
		}, Data: map[string][]byte{"a": []byte(canaries["secret"])}})
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "test.recording")
		recorder, err := recording.Create(file, recording.Options{IncludeSecrets: include})
		require.NoError(t, err)
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Recorder: recorder}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		kind := corev1.SchemeGroupVersion.WithKind("Secret")
		for _, err := range rest.ResourceFor[*corev1.Secret](client).List(t.Context(), metav1.ListOptions{}).Items {
			require.NoError(t, err)
		}
		for o, err := range rest.ResourceForKind[*metav1.PartialObjectMetadata](client, kind).List(t.Context(), metav1.ListOptions{}).Items {
			require.NoError(t, err)
			require.NotEmpty(t, o.Annotations)
		}
		require.NoError(t, recorder.Close())
		said.recording(t, file)
		if !include {
			said.requireSilence(t, "recording")
			continue
		}
		require.Contains(t, said.said["recording"].String(), canaries["secret"], "the test finds what is there")
	}
}
