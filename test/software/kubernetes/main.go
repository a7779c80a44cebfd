// Command kubernetes runs the default controllers of Kubernetes' kube-controller-manager and its
// kube-scheduler in one process, on client-go's informers or on Millrace's:
//
//	go -C test/software/kubernetes run . -kubeconfig FILE -informers millrace
//
// test/software controls the command. It writes "ready" to stdout once everything runs, and answers
// every line on stdin with one line of JSON, the current [Figures] of the process. It ends when stdin
// closes. Its log goes to stderr.
//
// It is a separate module to keep k8s.io/kubernetes away from the others.
//
// # What is not there
//
// Controllers that need the cluster's keys (for tokens of service accounts and certificates) or a cloud
// do not run. Nor do the election and the programs' servers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/klog/v2"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the `file` that says where the API server is")
	informers := flag.String("informers", "stock", "whose informers: stock or millrace")
	flag.Parse()
	if err := run(*kubeconfig, *informers, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

// run runs both programs until stdin ends.
func run(kubeconfig, informers string, stdin io.Reader, stdout io.Writer) error {
	choose, ok := map[string]func(settings) (*factories, error){"stock": stock, "millrace": millrace}[informers]
	if !ok {
		return fmt.Errorf("-informers=%s: there are stock and millrace", informers)
	}
	ctx, cancel := context.WithCancelCause(klog.NewContext(context.Background(), klog.Background()))
	defer cancel(nil)
	var asked requests
	manager, err := newManager(ctx, kubeconfig, &asked, choose)
	if err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	scheduler, err := newScheduler(ctx, manager.config, choose)
	if err != nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	var all sync.WaitGroup
	all.Go(func() { cancel(errors.Join(manager.run(ctx), errors.New("kube-controller-manager has ended"))) })
	all.Go(func() { cancel(errors.Join(scheduler.run(ctx), errors.New("kube-scheduler has ended"))) })

	go func() { // runs until the process ends, because a read from stdin cannot be interrupted
		cancel(serve(stdin, stdout, &asked))
	}()
	<-ctx.Done()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// serve answers until stdin ends, and then returns io.EOF.
func serve(stdin io.Reader, stdout io.Writer, asked *requests) error {
	if _, err := fmt.Fprintln(stdout, "ready"); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		f, err := measure()
		if err != nil {
			return err
		}
		f.Requests = asked.counts()
		if err := json.NewEncoder(stdout).Encode(f); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}
