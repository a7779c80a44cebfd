// Command software runs other people's programs, once unchanged and once with Millrace instead of their
// informers, caches or queues. It runs their test suites, and the controllers and scheduler of
// Kubernetes in a cluster. results/software.md reports the differences and their causes.
//
//	make software                            # everything; the first time takes long
//	make software ONLY=controller-runtime    # the suites whose name matches
//	make software ONLY=replicaset            # one of Kubernetes' integration tests
//	make software ONLY=kubernetes            # the controllers of Kubernetes
//
// A suite is a few packages of one release of a module from the module proxy. They are copied to the user's
// cache directory and run there:
//
//   - as they are;
//   - with the edits of the suite, which are the one line by which an informer, a cache or a
//     queue is chosen, and with a test file in each package that chooses Millrace's.
//
// Suites that take long to compile are compiled once, with the edits and the test file, and run twice.
// An environment variable makes the choice. The chosen parts are counted, and a run that uses no part of
// Millrace is an error. Kubernetes' integration tests and cluster-api's suites are run in this way.
// Their edits are in client-go and controller-runtime, which are copied too.
//
// Kubernetes' controllers run in the module in the folder kubernetes, which selects the informers
// itself. They work on a cluster of package cluster. Every round has a new API server and a new process.
//
// Every difference needs a cause in the suite's list. Suites that need an API server get a real one: etcd
// and kube-apiserver are built from source.
//
// # Failure
//
// It exits with 1 if a suite could not be run, if a result differs without a known cause, or if two
// rounds of Kubernetes' controllers ended in different states. The output of both runs is stored next to
// the copy, and the command prints its path.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	only := flag.String("only", "", "a regular `expression`: run the suites whose name matches")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "software:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "test", "software")); err != nil {
		return errors.New("run it in the root of the repository: make software")
	}
	if err := adopt(); err != nil {
		return err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	b := bench{root: root, cache: filepath.Join(base, "millrace", "software")}
	var errs []error
	for _, s := range suites {
		if ctx.Err() != nil || !wanted.MatchString(s.name) {
			continue
		}
		r, err := b.compare(ctx, s)
		if err == nil {
			err = r.write(resultFile(root, s.name))
		}
		if err == nil {
			err = r.unexplained(s)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if ctx.Err() == nil && wanted.MatchString(controllersName) {
		c, err := b.playControllers(ctx)
		if err == nil {
			err = errors.Join(c.write(resultFile(root, controllersName)), c.different())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", controllersName, err))
		}
	}
	return errors.Join(append(errs, report(root))...)
}
