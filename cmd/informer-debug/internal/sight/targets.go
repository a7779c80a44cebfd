package sight

import (
	"context"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// Targets resolves a list of types, for commands that do not run informers. The caller must close the
// targets' client, unless there is an error.
func (f *Flags) Targets(ctx context.Context, s terminal.Streams, types string, c *terminal.Console) (*config.Config, []cluster.Target, error) {
	if types == "" {
		return nil, nil, exit.Usage("specify the types to examine, for example \"pods\"")
	}
	f.Connect.Load.Namespace, f.Connect.Load.Logger = f.Namespace, c.Logger()
	cfg, err := config.LoadWith(f.Connect.Load)
	if err != nil {
		return nil, nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	all, err := f.TargetsOf(ctx, cfg, types, c)
	return cfg, all, err
}

// TargetsOf is like [Flags.Targets] with an existing configuration.
func (f *Flags) TargetsOf(ctx context.Context, cfg *config.Config, types string, c *terminal.Console) ([]cluster.Target, error) {
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return nil, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	at := cluster.Target{Client: client, Server: cluster.ServerName(cfg.Host)}
	mappings, err := at.ResolveAll(ctx, types, cluster.Patience(cfg), c)
	if err != nil {
		client.CloseIdleConnections()
		return nil, err
	}
	var all []cluster.Target
	for _, m := range mappings {
		at.Mapping, at.Namespace = m, ""
		if m.Namespaced && !f.AllNamespaces {
			at.Namespace = cfg.Namespace
		}
		all = append(all, at)
	}
	return all, nil
}

// Server returns a client for the cluster. If a process is attached by URL, the TLS and token flags
// apply to the process and are not used here.
func (v *Sight) Server(s terminal.Streams) (cluster.Target, error) {
	if v.Client != nil {
		return cluster.Target{Client: v.Client, Server: v.Called}, nil
	}
	load := v.Flags.Connect.Load
	if !v.Flags.InPod() {
		load = config.LoadOptions{
			Kubeconfig: load.Kubeconfig, Context: load.Context, Cluster: load.Cluster, User: load.User,
			Server: load.Server, Impersonate: load.Impersonate, Timeout: load.Timeout,
		}
	}
	load.Logger = terminal.NewConsole(s, false).Logger()
	cfg, err := config.LoadWith(load)
	if err != nil {
		return cluster.Target{}, &exit.Error{Code: exit.CodeUnavailable, Err: err, Hint: "--kubeconfig, --context or --server select the cluster to compare with"}
	}
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return cluster.Target{}, &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	v.Config = cfg
	return cluster.Target{Client: client, Server: cluster.ServerName(cfg.Host)}, nil
}
