package snapshot_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/snapshot"
)

// One process writes a snapshot, and the next reads it. An informer does both automatically: see
// factory.Options.Snapshot.
func Example() {
	path, err := os.MkdirTemp("", "snapshot")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	dir := snapshot.In(path, snapshot.Options{})
	pods := snapshot.Label{Server: "https://10.0.0.1", Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Type: "*v1.Pod", RV: "712", Written: time.Now()}
	_, err = dir.Write(context.Background(), pods, func(w *snapshot.Writer) error {
		_, err := w.Write([]byte("web-0"))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	file, err := dir.Read(pods)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s at version %s\n", file.Content, file.RV)
	// Output:
	// web-0 at version 712
}
