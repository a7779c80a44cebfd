package manager_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest/config"
)

// In this program, one replica at a time counts the pods of a cluster.
func Example() {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"web-0", "web-1"} {
		if _, err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}); err != nil {
			log.Fatal(err)
		}
	}

	cfg := &config.Config{Host: endpoint.URL, Namespace: "shop"} // config.Load() in a program
	m, err := manager.New(cfg, manager.Options{
		LeaderElection:         &leaderelection.Options{Name: "census"},
		HealthProbeBindAddress: "127.0.0.1:0",
	})
	if err != nil {
		log.Fatal(err)
	}
	pods := factory.Informer[*corev1.Pod](m.Factory())

	ctx, cancel := context.WithCancel(context.Background()) // manager.SignalContext() in a program
	err = m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		token, _ := leaderelection.Token(ctx)
		fmt.Println(pods.Cache().Len(), "pods, in term", token)
		cancel()
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2 pods, in term 1
}
