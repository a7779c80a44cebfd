// Command vulnerabilities runs govulncheck on the modules in the given directories. It fails if they call
// known vulnerable code.
//
//	go -C tools run ./vulnerabilities .. ../adapters/clientgo
//	go -C tools run ./vulnerabilities -db file:///path/of/vulndb ..
//
// The default database is Go's own, https://vuln.go.dev. If it cannot be reached, the command prints a
// message and succeeds, because builds must not fail for lack of a network. -db may specify a local copy in
// the format described at https://go.dev/security/vuln/database.
//
// # Failure
//
// It exits with 1 if a vulnerability was found, or if govulncheck failed although the database could be
// reached. The limits below bound its running time.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

const (
	answerPatience = 10 * time.Second // for the database's first response
	scanPatience   = 10 * time.Minute // per module; the largest takes less than a minute
)

// The possible results of govulncheck. A panic in govulncheck may still lead to a successful exit code.
const (
	vulnerable = 3 // exit code
	clean      = "No vulnerabilities found."
)

func main() {
	db := flag.String("db", "https://vuln.go.dev", "the `address` of the database: https or file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := scanAll(ctx, *db, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities:", err)
		os.Exit(1)
	}
}

// scanAll scans the modules in all directories, even if it finds one vulnerable. If the database cannot be
// reached, it prints a message and returns nil.
func scanAll(ctx context.Context, db string, dirs []string, out io.Writer) error {
	var errs []error
	for _, dir := range dirs {
		if err := reach(ctx, db); err != nil {
			fmt.Fprintf(out, "vulnerabilities: SKIPPED: %v; to check without a network, name a copy with -db file:///DIRECTORY\n", err)
			return errors.Join(errs...)
		}
		if err := scan(ctx, db, dir, out); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// scan runs govulncheck on one module.
func scan(ctx context.Context, db, dir string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, scanPatience)
	defer cancel()
	tools, err := filepath.Abs("go.mod")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile="+tools, "govulncheck", "-db", db, "./...")
	var said bytes.Buffer
	both := io.MultiWriter(out, &said)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, both, both
	cmd.WaitDelay = time.Second // a child process may keep the output open
	fmt.Fprintf(out, "govulncheck %s\n", dir)
	err = cmd.Run()
	switch failed, _ := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil:
		return fmt.Errorf("govulncheck was stopped: %w", ctx.Err())
	case failed != nil && failed.ExitCode() == 1 && reach(ctx, db) != nil:
		fmt.Fprintln(out, "vulnerabilities: the database went away")
		return nil
	case failed != nil && failed.ExitCode() == vulnerable:
		return errors.New("vulnerable: see the output of govulncheck above for updates")
	case err == nil && !strings.Contains(said.String(), clean):
		return errors.New("govulncheck exited without a result: see above")
	case err != nil:
		return fmt.Errorf("govulncheck failed: see above: %w", err)
	}
	return nil
}

// reach checks that the database responds.
func reach(ctx context.Context, db string) error {
	const index = "index/db.json"
	if dir, local := strings.CutPrefix(db, "file://"); local {
		if _, err := os.Stat(filepath.Join(filepath.FromSlash(dir), index)); err != nil {
			return fmt.Errorf("the vulnerability database cannot be read: %w", err)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	address, err := url.JoinPath(db, index)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the vulnerability database cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the vulnerability database cannot be reached: %s responded with %s", address, resp.Status)
	}
	return nil
}
