// Command release builds a release's artifacts and rehearses the release. It publishes nothing.
//
//	go -C tools run ./release rehearse -version v0.1.0    # make release-rehearsal VERSION=v0.1.0
//	go -C tools run ./release tree -version v0.1.0 DIR    # the files of the release
//	go -C tools run ./release tag -version v0.1.0         # a commit of them, and its tags
//	go -C tools run ./release pack -version v0.1.0 DIR    # make release-artifacts VERSION=v0.1.0
//	go -C tools run ./release prove -version v0.1.0       # make release-proofs VERSION=v0.1.0
//
// # Modules
//
// All modules in the list [released] share the version of the release. In the repository, each requires the
// others at v0.0.0 and replaces them with local directories, so that each commit builds as a whole.
// Replacements have no effect for a module's users. In a release, each module therefore requires the others
// at the release's version, its go.sum contains their hashes, and nothing is replaced. The subcommand tree
// writes those files. The subcommand tag commits them as a child of the released commit, on no branch, and
// tags that commit once per module. As the go command expects, a tag consists of directory and version, such
// as adapters/clientgo/v0.1.0.
//
// # Rehearsal
//
// The subcommand rehearse takes the committed tree of HEAD, prints the API changes since the last tag, and
// writes the modules to a directory that the go command can use as a proxy. Then each script in the directory
// strangers plays a user who has nothing but the documentation and an empty module cache. Other modules come
// from the current user's module cache, or from the usual proxy.
//
// # Downloads
//
// The subcommand pack builds the commands for six systems from the same proxy, as go install does for users,
// and without local paths or timestamps, so that the same commit and Go version always produce the same
// bytes. Each archive contains the program, the licences of all linked code, manual pages and completions.
// Next to it, pack writes a bill of materials in CycloneDX format. Programs for this system are run once as a
// check.
//
// # Proofs
//
// The subcommand prove runs the checks that are too long to run for each commit, records their outcomes below
// results, and shows them on one page. It continues where it was interrupted, and repeats a check only if the
// code has changed since it passed.
//
// # Failure
//
// It exits with 1 if a script fails, a module cannot be written, or the API has changed in a way that
// the version does not announce; see [announces].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

const usage = "usage: release rehearse|tree|tag|pack|prove -version vX.Y.Z [flags] [DIR]"

// run executes a command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	r := release{out: out}
	flags.StringVar(&r.repo, "C", "..", "the `directory` of the repository")
	flags.StringVar(&r.revision, "revision", "HEAD", "the `commit` to release")
	flags.StringVar(&r.version, "version", "", "the `version` of all modules, such as v0.1.0")
	only := flags.String("only", "", "run only the scripts or proofs with this `text` in their names")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("-version %q: it must be like v0.1.0 or v0.1.0-rc.1", r.version)
	}
	switch {
	case args[0] == "rehearse" && flags.NArg() == 0:
		return r.rehearse(ctx, *only)
	case args[0] == "tree" && flags.NArg() == 1:
		_, err := r.tree(ctx, flags.Arg(0))
		return err
	case args[0] == "pack" && flags.NArg() == 1:
		return r.pack(ctx, flags.Arg(0))
	case args[0] == "prove" && flags.NArg() == 0:
		return r.prove(ctx, proofs, *only)
	case args[0] == "tag" && flags.NArg() == 0:
		return r.tag(ctx)
	}
	return errors.New(usage)
}

// release is one version of one commit.
type release struct {
	repo     string // directory
	revision string
	version  string
	out      io.Writer
}

// rehearse compares the API, writes the modules and runs the scripts in the directory strangers.
func (r *release) rehearse(ctx context.Context, only string) error {
	begin := time.Now()
	tmp, err := os.MkdirTemp("", "millrace-release-")
	if err != nil {
		return err
	}
	defer removeAll(tmp)
	tree, err := r.tree(ctx, filepath.Join(tmp, "tree"))
	if err != nil {
		return err
	}
	if err := r.compareAPI(ctx, tree, filepath.Join(tmp, "last")); err != nil {
		return err
	}
	w := world{version: r.version, proxy: filepath.Join(tmp, "proxy"), tree: tree, out: r.out}
	if err := writeProxy(ctx, w.proxy, tree); err != nil {
		return err
	}
	if err := w.play(ctx, filepath.Join(tmp, "strangers"), only); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "release: rehearsed %s in %v\n", r.version, time.Since(begin).Round(time.Second))
	return nil
}

// removeAll removes a directory that contains a module cache, whose directories are read-only. It
// ignores errors.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
