package controllerruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// cachedRead reads through a client from a cache that does not change.
func (k Stack) cachedRead(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewFeed(s)
	all, err := k.newLocal(s, feed)
	if err != nil {
		return nil, err
	}
	const node = "spec.nodeName"
	err = all.IndexField(ctx, &corev1.Pod{}, node, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- all.Start(ctx) }()
	if _, err := all.GetInformer(ctx, &corev1.Pod{}); err != nil {
		return nil, err
	}
	list := func(opts ...client.ListOption) (int, error) {
		var pods corev1.PodList
		err := all.List(ctx, &pods, opts...)
		return len(pods.Items), err
	}
	lookups := scenario.Lookups{
		Get: func(key types.NamespacedName) (int, error) {
			var p corev1.Pod
			return 1, all.Get(ctx, key, &p)
		},
		Namespace: func(namespace string) (int, error) { return list(client.InNamespace(namespace)) },
		Label: func(selector labels.Selector) (int, error) {
			return list(client.MatchingLabelsSelector{Selector: selector})
		},
		Node: func(name string) (int, error) { return list(client.MatchingFields{node: name}) },
	}
	r, err := lookups.Measure(s, feed.Items)
	cancel()
	return r, errors.Join(err, <-ended)
}

// newLocal returns a cache filled from a feed. Reads do not copy unless Params.Copied is set.
func (k Stack) newLocal(s *protocol.Session, feed *scenario.Feed[*corev1.Pod]) (cache.Cache, error) {
	types, err := prepare(s)
	if err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	items := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: feed.ListRV()},
	}
	for _, p := range feed.Items {
		items.Items = append(items.Items, *p)
	}
	list, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	return k.Cache(&rest.Config{Transport: server{list}}, cache.Options{
		Scheme: types, Mapper: mapper, DefaultUnsafeDisableDeepCopy: new(!s.Params.On(scenario.Copied)),
	})
}

// server responds to every list with the same bytes, and never sends anything on a watch.
type server struct{ list []byte }

// RoundTrip implements http.RoundTripper.
func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	var body io.Reader = bytes.NewReader(s.list)
	if req.URL.Query().Has("watch") {
		body = silence{req.Context()}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(body), Request: req,
	}, nil
}

// silence blocks reads until the context is done.
type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}
