package factory

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/source"
)

// watched is a source that calls a function before it describes itself.
type watched struct {
	source.ListerWatcher
	described *func()
}

func (w watched) Describe() source.Description {
	(*w.described)()
	return source.Describe(w.ListerWatcher)
}

// An informer requested during SetNamespaces does not watch the new namespaces before the others do.
func TestAnInformerRequestedDuringSetNamespaces(t *testing.T) {
	client, err := rest.NewClient(&config.Config{Host: "http://127.0.0.1:1"}, scheme.New())
	require.NoError(t, err)
	f := New(client, Options{Namespaces: []string{"a"}})
	described := func() {}
	pods := wanted(For[*corev1.Pod]{})
	pods.transform = func(from source.ListerWatcher) source.ListerWatcher { return watched{from, &described} }
	first, _ := f.use(pods)

	done := make(chan struct{})
	var second *entry
	var others []string
	described = func() {
		described = func() {}
		go func() {
			defer close(done)
			second, _ = f.use(wanted(For[*corev1.Secret]{}))
			others = first.informer.Namespaces()
		}()
		for range 1000 { // it must not return yet
			runtime.Gosched()
		}
	}
	require.NoError(t, f.SetNamespaces([]string{"b"}))
	<-done
	require.Equal(t, []string{"b"}, second.informer.Namespaces())
	require.Equal(t, []string{"b"}, others)
}
