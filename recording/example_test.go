package recording_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// A client records what it receives, and another one receives the same after the server
// is gone.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.recording")
	if err := record(path); err != nil {
		fmt.Println(err)
		return
	}

	file, err := recording.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	for _, q := range file.Requests {
		fmt.Println(q, "→", q.Answer.Status)
	}
	replayed := &config.Config{Replay: file.Replay(recording.ReplayOptions{})}
	if err := list(replayed); err != nil {
		fmt.Println(err)
	}
	// Output:
	// web-1
	// list pods → 200
	// web-1
}

// record lists pods with a recorder.
func record(path string) error {
	srv := apiservertest.New(apiservertest.Options{})
	defer srv.Close()
	endpoint, err := srv.Pipe()
	if err != nil {
		return err
	}
	if _, err := srv.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}); err != nil {
		return err
	}
	recorder, err := recording.Create(path, recording.Options{})
	if err != nil {
		return err
	}
	defer recorder.Close()
	return list(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext, Recorder: recorder})
}

// list prints the names of all pods.
func list(cfg *config.Config) error {
	client, err := rest.NewClient(cfg, scheme.New())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for pod, err := range rest.ResourceFor[*corev1.Pod](client).List(context.Background(), metav1.ListOptions{}).Items {
		if err != nil {
			return err
		}
		fmt.Println(pod.Name)
	}
	return nil
}
