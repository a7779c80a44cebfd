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
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// commandTimeout bounds one command.
const commandTimeout = 30 * time.Second

// Answer is what the program says on stdout to each command.
type Answer struct {
	Revision int64  `json:"revision,omitempty"` // up to which etcd was compacted
	Error    string `json:"error,omitempty"`
}

// serveControl obeys commands until stdin ends, then asks for the shutdown.
func serveControl(stdin io.Reader, stdout io.Writer, db *embed.Etcd) {
	out := json.NewEncoder(stdout)
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		if err := out.Encode(obey(lines.Text(), db)); err != nil {
			fmt.Fprintln(os.Stderr, "kube: answer a command:", err)
			break
		}
	}
	genericapiserver.RequestShutdown()
}

func obey(command string, db *embed.Etcd) Answer {
	if command != "compact" {
		return Answer{Error: fmt.Sprintf("unknown command %q: there is only compact", command)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	rev, err := compact(ctx, db)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return Answer{Revision: rev}
}
