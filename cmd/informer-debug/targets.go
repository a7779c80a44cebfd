package main

import (
	"context"

	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// targets finds where the TYPEs of a list are served, for a verb that runs no informers. The
// client of the targets has to be closed; there is none after an error.
func (f *sightFlags) targets(ctx context.Context, s surroundings, types string, c *console) (*config.Config, []target, error) {
	if types == "" {
		return nil, nil, usage("name what to look at, for example \"pods\"")
	}
	f.connect.load.Namespace, f.connect.load.Logger = f.namespace, c.logger()
	cfg, err := config.LoadWith(f.connect.load)
	if err != nil {
		return nil, nil, &exitError{code: exitUnavailable, err: err}
	}
	all, err := f.targetsOf(ctx, cfg, types, c)
	return cfg, all, err
}

func (f *sightFlags) targetsOf(ctx context.Context, cfg *config.Config, types string, c *console) ([]target, error) {
	client, err := rest.NewClient(cfg, nil)
	if err != nil {
		return nil, &exitError{code: exitUnavailable, err: err}
	}
	at := target{client: client, server: serverName(cfg.Host)}
	mappings, err := at.resolveAll(ctx, types, patienceWith(cfg), c)
	if err != nil {
		client.CloseIdleConnections()
		return nil, err
	}
	var all []target
	for _, m := range mappings {
		at.mapping, at.namespace = m, ""
		if m.Namespaced && !f.allNamespaces {
			at.namespace = cfg.Namespace
		}
		all = append(all, at)
	}
	return all, nil
}
