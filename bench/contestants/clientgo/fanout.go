package clientgo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// podList returns a list of pods.
func podList(items []*corev1.Pod, rv string) runtime.Object {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: rv}}
	for _, p := range items {
		list.Items = append(list.Items, *p)
	}
	return list
}

// metadataList returns a list of metadata objects.
func metadataList(items []*metav1.PartialObjectMetadata, rv string) runtime.Object {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: rv}}
	for _, o := range items {
		list.Items = append(list.Items, *o)
	}
	return list
}

// fanout feeds events to handlers within the process.
func (k Stack) fanout(ctx context.Context, s *protocol.Session) (*protocol.Result, error) {
	feed := scenario.NewFeed(s)
	s.Until = feed.Until
	i, err := newLocal(k, s, feed, podList)
	if err != nil {
		return nil, err
	}
	listeners, registrations, err := listen(s, i)
	if err != nil {
		return nil, err
	}
	defer start(ctx, i)()
	for _, r := range registrations {
		<-r.HasSyncedChecker().Done()
	}
	if err := scenario.Fanout(s, feed.Go, listeners); err != nil {
		return nil, err
	}
	r, err := account(s, listeners, i)
	if err != nil {
		return nil, err
	}
	r.Metrics = s.Metrics
	return r, nil
}
