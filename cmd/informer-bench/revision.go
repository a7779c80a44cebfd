package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// describe returns the commit of the source tree, followed by "+" if there are uncommitted changes. It
// returns "" outside a repository.
func describe(root string) string {
	described, err := git(context.Background(), root, "describe", "--always", "--dirty=+", "--abbrev=12")
	if err != nil {
		return ""
	}
	return described
}

// checkOut checks out a revision into a new directory and returns the commit. The directory is a git
// worktree, so no fetch is needed. Call remove to delete it.
func checkOut(ctx context.Context, root, revision, dir string) (commit string, remove func() error, err error) {
	if commit, err = git(ctx, root, "rev-parse", "--verify", "--short=12", "--end-of-options", revision+"^{commit}"); err != nil {
		return "", nil, fmt.Errorf("revision %s: %w", revision, err)
	}
	if _, err := git(ctx, root, "worktree", "add", "--detach", dir, commit); err != nil {
		return "", nil, fmt.Errorf("check out %s: %w", revision, err)
	}
	return commit, func() error {
		// Remove it even if ctx was canceled; otherwise the repository would keep listing it.
		_, err := git(context.WithoutCancel(ctx), root, "worktree", "remove", "--force", dir)
		return err
	}, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return tool(ctx, "git", dir, args...)
}

func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	return tool(ctx, "go", dir, args...)
}

// tool runs a command and returns its output. Errors include the command's stderr.
func tool(ctx context.Context, name, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Clean(dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s %s: %w", name, args[0], err), errors.New(strings.TrimSpace(stderr.String())))
	}
	return strings.TrimSpace(string(stdout)), nil
}
