package controllertest

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// Manager returns a manager with the client and the informers of the world, for programs
// whose parts are added to one: what main does with its manager, a test does with this.
// Start runs it, and it runs the informers. Its options must name no addresses, or the test
// fails, since no packet leaves the world; an election is possible.
func (e *Env) Manager(opts manager.Options) *manager.Manager {
	e.Helper()
	for name, address := range map[string]string{
		"MetricsBindAddress": opts.MetricsBindAddress, "HealthProbeBindAddress": opts.HealthProbeBindAddress, "PprofBindAddress": opts.PprofBindAddress,
	} {
		if address != "" && address != "0" {
			e.Fatalf("Manager: %s is %q: leave it empty: a connection of the machine would end virtual time", name, address)
		}
	}
	if opts.Logger == nil {
		opts.Logger = e.logger
	}
	opts.NewClient = func(*config.Config, *runtime.Scheme) (*rest.Client, error) { return e.Client, nil }
	opts.NewCache = func(*rest.Client, factory.Options) (*factory.Factory, error) { return e.Factory, nil }
	m, err := manager.New(e.config, opts)
	if err != nil {
		e.Fatal(err)
	}
	return m
}
