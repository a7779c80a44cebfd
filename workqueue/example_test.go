package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/workqueue"
)

// A controller's worker: failed keys come back later, each after its own delay.
func Example() {
	q := workqueue.New(workqueue.Options[string]{Name: "pods"})
	q.Add("default/web")
	q.Add("default/db")
	q.Add("default/web") // merges with the first

	failed := false
	reconcile := func(key string) error {
		if key == "default/web" && !failed {
			failed = true
			return errors.New("conflict")
		}
		return nil
	}

	for key := range q.Work(context.Background()) {
		if err := reconcile(key); err != nil {
			q.AddRateLimited(key)
			fmt.Println(key, "failed", q.NumRequeues(key))
			continue
		}
		q.Forget(key)
		fmt.Println(key, "done")
		if key == "default/web" {
			break
		}
	}
	q.ShutDown()
	// Output:
	// default/web failed 1
	// default/db done
	// default/web done
}

// Urgent keys go first, but every second Get takes the key that has waited
// longest.
func ExampleQueue_AddWith() {
	q := workqueue.New(workqueue.Options[string]{FairEvery: 2})
	q.AddWith(workqueue.AddOptions{Priority: -100}, "initial-1", "initial-2")
	q.AddWith(workqueue.AddOptions{Priority: 0}, "changed-1", "changed-2")
	for range 4 {
		key, _ := q.Get(context.Background())
		fmt.Println(key)
		q.Done(key)
	}
	q.ShutDown()
	// Output:
	// changed-1
	// initial-1
	// changed-2
	// initial-2
}

// Drain finishes a queue: waiting keys are handed out, delayed ones are dropped.
func ExampleQueue_Drain() {
	q := workqueue.New(workqueue.Options[int]{})
	q.AddWith(workqueue.AddOptions{}, 1, 2, 3)
	q.AddAfter(4, time.Hour)

	var workers sync.WaitGroup
	workers.Go(func() {
		for key := range q.Work(context.Background()) {
			fmt.Println("worked on", key)
		}
	})
	err := q.Drain(context.Background())
	workers.Wait()
	fmt.Println(err, "dropped:", q.Status().Dropped)
	// Output:
	// worked on 1
	// worked on 2
	// worked on 3
	// <nil> dropped: 1
}

func ExampleParallelize() {
	squares := make([]int, 5)
	err := workqueue.Parallelize(context.Background(), 2, len(squares), func(i int) {
		squares[i] = i * i
	})
	fmt.Println(squares, err)
	// Output: [0 1 4 9 16] <nil>
}
