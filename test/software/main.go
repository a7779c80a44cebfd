// Command software runs third-party software, once unchanged and once with Millrace's informers, caches or
// queues: the test suites of several projects, and Kubernetes' controllers and scheduler in a cluster.
// results/software.md reports the differences and their causes.
//
//	make software                            # everything; the first run takes long
//	make software ONLY=controller-runtime    # matching suites
//	make software ONLY=replicaset            # one of Kubernetes' integration tests
//	make software ONLY=kubernetes            # Kubernetes' controllers
//
// A suite is a set of packages from one release of a module on the module proxy. They are copied to the
// user's cache directory and run there:
//
//   - unchanged;
//   - with the suite's edits, which make it possible to replace an informer, a cache or a queue, and with a
//     test file in each package that selects Millrace's.
//
// Suites that take long to compile are compiled once, with the edits and the test file, and run twice. An
// environment variable determines the selection. The selected components are counted, and it is an error if a
// run uses none from Millrace. Kubernetes' integration tests and cluster-api's suites are run this way. Their
// edits change client-go and controller-runtime, which are copied too.
//
// Kubernetes' controllers are run by the module in the kubernetes directory, which selects the informers
// itself. They work on a cluster simulated by package cluster. Every round uses a new API server and a new
// process.
//
// Every difference must be explained by a cause in the suite's list. Suites that need an API server get a
// real one: etcd and kube-apiserver are built from source.
//
// # Failure
//
// It exits with code 1 if a suite could not be run, if a result differs without a known cause, or if two
// rounds with Kubernetes' controllers ended in different states. The output of both runs is stored next to
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
	only := flag.String("only", "", "only run suites whose name matches this `regexp`")
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
		return errors.New("run it from the repository's root: make software")
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
