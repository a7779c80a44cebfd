package indexer_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

func Example() {
	x := indexer.New()
	byNode, _ := indexer.AddIndex(x, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	x.Write(func(w indexer.Writer) { // one lock for all
		for name, node := range map[string]string{"web-0": "node-1", "web-1": "node-2"} {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
				Spec:       corev1.PodSpec{NodeName: node},
			}
			w.Set(object.KeyOf(p), p)
		}
	})
	for p := range byNode.Get("node-1") {
		fmt.Println("on node-1:", p.Name)
	}
	p, ok := indexer.ReaderOf[*corev1.Pod](x).Get(object.Key{Namespace: "shop", Name: "web-1"})
	fmt.Println(indexer.ReaderOf[*corev1.Pod](x).Len(), ok, p.Spec.NodeName)
	// Output:
	// on node-1: web-0
	// 2 true node-2
}
