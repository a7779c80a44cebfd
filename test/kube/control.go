package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// commandTimeout is the time limit for one command.
const commandTimeout = 30 * time.Second

// Answer is the program's response to a command, printed to stdout.
type Answer struct {
	Revision int64  `json:"revision,omitempty"` // the revision at which etcd was compacted
	Error    string `json:"error,omitempty"`
}

// serveControl executes commands until EOF on stdin, and then requests a shutdown. Commands fail if db is
// nil.
func serveControl(stdin io.Reader, stdout io.Writer, db *embed.Etcd, shutdown func()) {
	out := json.NewEncoder(stdout)
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		if err := out.Encode(obey(lines.Text(), db)); err != nil {
			fmt.Fprintln(os.Stderr, "kube: answer a command:", err)
			break
		}
	}
	shutdown()
}

func obey(command string, db *embed.Etcd) Answer {
	if db == nil {
		return Answer{Error: fmt.Sprintf("%s: etcd runs in another process: send the command there", command)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	var a Answer
	var err error
	switch command {
	case "compact":
		a.Revision, err = compact(ctx, db)
	case "defragment":
		err = defragment(ctx, db)
	default:
		err = fmt.Errorf("unknown command %q: must be compact or defragment", command)
	}
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return a
}
