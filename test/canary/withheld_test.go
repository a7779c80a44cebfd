package canary

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// viewed is an informer on a debug page.
type viewed struct{ sharedinformer.View }

func (viewed) Status() []sharedinformer.Status { return nil }
func (v viewed) Views() []sharedinformer.View  { return []sharedinformer.View{v.View} }

// outlets runs an informer, and adds what debug pages show about it.
func outlets[T object.Object](t *testing.T, said *ledger, i *sharedinformer.Informer[T]) {
	t.Helper()
	sharedinformer.AddIndex(i, "hint", func(o T) []string { return []string{o.GetAnnotations()["hint"]} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	require.NoError(t, i.WaitForSync(t.Context()))
	client := debug.New(debug.Options{Informers: debug.Of(viewed{i.View()}), Contents: true}).Client()
	one, err := client.Object(t.Context(), debug.Which{}, object.Key{Namespace: "shop", Name: "a"})
	require.NoError(t, err)
	said.say("debug", string(one.Contents))
	indexes, err := client.Indexes(t.Context(), debug.Which{}, 5)
	require.NoError(t, err)
	said.value("debug", *indexes)
	time.Sleep(2 * time.Hour)
	cancel()
	require.NoError(t, <-ended)
}

// Each outlet withholds the same secrets, whatever their kind is called: Secrets themselves, and
// those that an aggregated API serves under another name.
func TestEachOutletWithholdsTheSameSecrets(t *testing.T) {
	resource := func(group, plural, kind string) apiservertest.Resource {
		return apiservertest.Resource{GVR: object.GVR{Group: group, Version: "v1", Resource: plural}, Kind: kind, ListKind: kind + "List", Singular: plural[:len(plural)-1], Namespaced: true}
	}
	clustersecrets, mirrors, vaults := resource("clustersecret.io", "clustersecrets", "ClusterSecret"), resource("mirror.example", "mirrors", "Secret"), resource("vault.example", "vaults", "Vault")
	for name, of := range map[string]struct {
		apiservertest.Resource
		withheld bool
	}{
		"a kind that is named so":   {clustersecrets, true},
		"a Secret of another group": {mirrors, true},
		"another kind":              {vaults, false},
	} {
		for _, metadata := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, metadata only: %v", name, metadata), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					said := newLedger()
					srv := apiservertest.New(apiservertest.Options{Resources: []apiservertest.Resource{of.Resource}})
					defer srv.Close()
					endpoint, err := srv.Pipe()
					require.NoError(t, err)
					kind := of.GVR.GroupVersion().WithKind(of.Kind)
					o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": canaries["secret"]}}}
					o.SetGroupVersionKind(kind)
					o.SetNamespace("shop")
					o.SetName("a")
					o.SetAnnotations(map[string]string{"hint": canaries["config"]})
					_, err = srv.Put(o)
					require.NoError(t, err)

					dir := t.TempDir()
					file := filepath.Join(dir, "test.recording")
					recorder, err := recording.Create(file, recording.Options{})
					require.NoError(t, err)
					client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Recorder: recorder}, scheme.New())
					require.NoError(t, err)
					defer client.CloseIdleConnections()
					opts := sharedinformer.Options{Snapshot: snapshot.In(filepath.Join(dir, "snapshots"), snapshot.Options{Interval: time.Hour})}
					if metadata {
						outlets(t, said, sharedinformer.New[*metav1.PartialObjectMetadata](rest.ResourceForKind[*metav1.PartialObjectMetadata](client, kind).Source(), opts))
					} else {
						outlets(t, said, sharedinformer.New[*unstructured.Unstructured](rest.ResourceForKind[*unstructured.Unstructured](client, kind).Source(), opts))
					}
					require.NoError(t, recorder.Close())
					recorded, err := recording.Open(file)
					require.NoError(t, err)
					defer recorded.Close()
					for _, q := range recorded.Requests {
						body, err := io.ReadAll(recorded.Body(q))
						require.NoError(t, err)
						said.say("recording", string(body))
					}
					snapshots, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
					require.NoError(t, err)
					for _, path := range snapshots {
						text, err := os.ReadFile(path)
						require.NoError(t, err)
						said.say("snapshot", string(text))
					}
					if of.withheld {
						said.requireSilence(t, "debug", "recording")
						return
					}
					for _, where := range []string{"debug", "recording", "snapshot"} {
						require.Contains(t, plain(said.said[where].String()), plain(canaries["config"]), "the test finds what is in the %s", where)
					}
				})
			})
		}
	}
}
