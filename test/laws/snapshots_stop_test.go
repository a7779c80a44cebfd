package laws

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
)

// silent makes the server stop answering.
func (r *rig) silent() {
	for _, verb := range []string{"get", "list", "watch"} {
		r.srv.Faults().Add(apiservertest.Fault{Verb: verb, Do: []apiservertest.Action{apiservertest.Silence{}}})
	}
}

// If the cluster of the last file is not known yet when the informer stops, it asks the server. It does
// not wait long for the answer, however many files there are.
func TestL23_AStopDoesNotWaitForASilentServer(t *testing.T) {
	const within = time.Second
	for name, breaks := range map[string]func(r *rig){
		"silent":      (*rig).silent,
		"unreachable": func(r *rig) { r.srv.Down() },
	} {
		for _, namespaces := range [][]string{nil, {"shop", "bank", "farm"}} {
			t.Run(fmt.Sprint(name, len(namespaces)), func(t *testing.T) {
				inBubble(t, apiservertest.Options{}, func(r *rig) {
					r.fill(3)
					i := r.begin(t.TempDir(), sharedinformer.Options{Namespaces: namespaces})
					r.untilSynced(i)
					breaks(r)
					began := time.Now()
					i.stop()
					require.LessOrEqual(t, time.Since(began), within)
					require.ErrorContains(t, i.Status().Snapshot.Failure, "identify the cluster")
				})
			})
		}
		t.Run(name+", a factory", func(t *testing.T) {
			inBubble(t, apiservertest.Options{}, func(r *rig) {
				r.fill(3)
				f := factory.New(r.client, factory.Options{Snapshot: snapshot.In(t.TempDir(), snapshot.Options{}), Logger: slog.New(slog.DiscardHandler)})
				factory.Informer[*corev1.Pod](f)
				factory.Informer[*corev1.ConfigMap](f)
				factory.InformerWith(f, factory.For[*corev1.Service]{Scope: factory.Scope{Namespaces: []string{"a", metav1.NamespaceDefault}}})
				ctx, cancel := context.WithCancel(r.ctx)
				f.Start(ctx)
				require.NoError(t, f.WaitForSync(r.ctx))
				breaks(r)
				began := time.Now()
				cancel()
				f.Wait()
				require.LessOrEqual(t, time.Since(began), within)
			})
		})
	}
}

// If the server does not answer which cluster it is, everything is listed.
func TestL20_ServerWithoutAnIdentity(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, apiservertest.Options{}, func(r *rig) {
		r.fill(3)
		first := r.begin(dir, sharedinformer.Options{})
		r.untilSynced(first)
		settle(time.Hour)
		first.stop()
		r.connect() // a new client, which does not know the cluster yet
		r.srv.Faults().Add(apiservertest.Fault{Verb: "get", Do: []apiservertest.Action{apiservertest.Silence{}}})
		began := time.Now()
		second := r.begin(dir, sharedinformer.Options{SyncPatience: -1})
		r.untilSynced(second)
		require.Less(t, time.Since(began), 2*time.Minute)
		require.False(t, second.Status().Reflector.Resumed)
		require.ErrorContains(t, second.Status().Reflector.Failure, "identify the cluster: get namespaces kube-system: no answer")
		second.stop()
	})
}
