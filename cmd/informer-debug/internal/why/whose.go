package why

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
)

// whose asks again where a process shares its work and does not have the object: by what the
// cluster knows of it, where these credentials may read that, it follows which replica has it.
// Where that cannot be told, stderr says why, and the answer is as it was.
func (w *whyQuestion) whose(ctx context.Context, s terminal.Streams, why *debug.Why) (*debug.Why, error) {
	if len(why.Unowned) == 0 {
		return why, nil
	}
	hash, err := w.hash(ctx, s, why.Unowned[0])
	if err != nil {
		if ctx.Err() == nil {
			_, err = fmt.Fprintf(s.Err, "this replica does not have %s, and which one has is not known: %s\n", object.FormatKey(w.key), terminal.OneLine(err.Error()))
		}
		return why, err
	}
	return w.process.WhyOf(ctx, w.informer, w.flags.controller, w.key, hash)
}

// hash is that of the object by the key by which its work is shared.
func (w *whyQuestion) hash(ctx context.Context, s terminal.Streams, of debug.Sharing) (uint64, error) {
	key, known := shard.KeyNamed(of.Key)
	if !known {
		return 0, fmt.Errorf("the group %s shares by %s, which only a program that has it can call: ask the replica that has it", of.Group, of.Key)
	}
	arg, err := object.ParseResourceArg(sight.Resource(of.Informer))
	if err != nil {
		return 0, err
	}
	load := w.look.Connect.Load
	load.Namespace, load.Logger = w.look.Namespace, terminal.NewConsole(s, false).Logger()
	cfg, err := config.LoadWith(load)
	if err != nil {
		return 0, err
	}
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	at := cluster.Target{Client: client, Server: cluster.ServerName(cfg.Host)}
	if at.Mapping, err = at.Resolve(ctx, arg, cluster.Patience(cfg), terminal.NewConsole(s, false)); err != nil {
		return 0, cluster.RootCause(err)
	}
	o, err := rest.ResourceForMapping[*metav1.PartialObjectMetadata](client, at.Mapping).Get(ctx, w.key, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return key.Hash(o), nil
}
