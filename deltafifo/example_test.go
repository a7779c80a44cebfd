package deltafifo_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// A consumer that lags takes all at once, in the order in which it came.
func Example() {
	f := deltafifo.New(deltafifo.Options{})
	for n, kind := range []deltafifo.Type{deltafifo.Added, deltafifo.Updated, deltafifo.Deleted} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "1", ResourceVersion: fmt.Sprint(n + 1)}}
		f.Add(deltafifo.Delta{Type: kind, Key: object.KeyOf(p), Object: p, RV: p.ResourceVersion})
	}
	fmt.Println(f.Len(), "wait")
	deltas, err := f.Pop(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range deltas {
		fmt.Println(d.Type, d.Key, d.RV)
	}
	// Output:
	// 3 wait
	// added shop/web-0 1
	// updated shop/web-0 2
	// deleted shop/web-0 3
}
