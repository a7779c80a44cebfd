package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tag commits the release as a child of the released commit, and tags it for each module. It does not move a
// branch or push anything.
func (r *release) tag(ctx context.Context) error {
	tmp, err := os.MkdirTemp("", "millrace-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	t, err := r.tree(ctx, filepath.Join(tmp, "tree"))
	if err != nil {
		return err
	}
	commit, err := r.commit(ctx, t, filepath.Join(tmp, "index"))
	if err != nil {
		return err
	}
	var others []string
	for _, m := range t.modules {
		tag := t.tag(m)
		if _, err := r.git(ctx, "tag", tag, commit); err != nil {
			return err
		}
		if tag != r.version {
			others = append(others, tag)
		}
	}
	// GitHub starts no workflow for a push of more than three tags.
	fmt.Fprintf(r.out, "release: %s is commit %s; to publish it:\n\n    git push origin %s\n    git push origin %s\n", r.version, commit, strings.Join(others, " "), r.version)
	return nil
}

// tag returns the tag that the go command expects for a module: the folder, then the version.
func (t *tree) tag(m *member) string {
	if m.folder == "." {
		return t.version
	}
	return m.folder + "/" + t.version
}

// commit commits the release's changes on top of its parent commit, using a separate index. The commit has its
// parent's date, so the artifacts of both are identical.
func (r *release) commit(ctx context.Context, t *tree, index string) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", r.repo}, args...)...)
		date := t.time.Format(time.RFC3339)
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	if _, err := git("read-tree", r.revision); err != nil {
		return "", err
	}
	for _, m := range t.modules {
		for _, name := range []string{"go.mod", "go.sum", "LICENSE"} {
			file := filepath.Join(t.folder(m), name)
			if _, err := os.Stat(file); os.IsNotExist(err) {
				continue // a module without requirements has no go.sum
			}
			hash, err := git("hash-object", "-w", "--no-filters", file)
			if err != nil {
				return "", err
			}
			path := filepath.ToSlash(filepath.Join(m.folder, name))
			if _, err := git("update-index", "--add", "--cacheinfo", "100644,"+hash+","+path); err != nil {
				return "", err
			}
		}
	}
	made, err := git("write-tree")
	if err != nil {
		return "", err
	}
	return git("commit-tree", made, "-p", r.revision, "-m", "release: "+r.version, "-m", "The modules require each other at this version, and replace nothing.")
}
