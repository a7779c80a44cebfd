package manager

import (
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/serving"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// addServers adds the servers enabled by the options.
func (m *Manager) addServers() error {
	if served(m.opts.MetricsBindAddress) {
		handler, err := m.protected(m.metrics.Handler())
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("/metrics", handler)
		if err := m.serve("metrics", m.opts.MetricsBindAddress, serving.Local(mux), m.opts.MetricsTLS); err != nil {
			return err
		}
	}
	if served(m.opts.HealthProbeBindAddress) {
		if err := m.serve("health", m.opts.HealthProbeBindAddress, m.probes(false), nil); err != nil {
			return err
		}
	}
	if served(m.opts.PprofBindAddress) {
		return m.addDebugServer()
	}
	return nil
}

// addDebugServer adds the debug server. If it is reachable from other machines, it is protected like
// metrics.
func (m *Manager) addDebugServer() error {
	if !outside(m.opts.PprofBindAddress) {
		return m.serve("pprof", m.opts.PprofBindAddress, serving.Local(m.debugHandler()), nil)
	}
	handler, err := m.protected(m.debugHandler())
	if err != nil {
		return err
	}
	return m.serve("pprof", m.opts.PprofBindAddress, serving.Local(handler), m.opts.MetricsTLS)
}

func (m *Manager) serve(name, address string, h http.Handler, tls *serving.TLS) error {
	server, err := serving.New(serving.Options{Name: name, Address: address, Handler: h, TLS: tls, Logger: m.logger})
	if err != nil {
		return err
	}
	return m.Add(server)
}

// protected guards a handler according to MetricsAccess.
func (m *Manager) protected(next http.Handler) (http.Handler, error) {
	if !m.opts.MetricsAccess {
		return next, nil
	}
	reviews := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(reviews); err != nil {
			return nil, err
		}
	}
	client, err := rest.NewClient(m.cfg, reviews)
	if err != nil {
		return nil, err
	}
	m.clients = append(m.clients, client)
	return serving.Access(client, m.logger, next), nil
}

// Probes returns a handler for /healthz and /readyz, for programs with their own server. Its responses
// include reasons, which contain object names and API server messages, so restrict access to it.
func (m *Manager) Probes() http.Handler { return m.probes(true) }

func (m *Manager) probes(reasons bool) http.Handler {
	mux := http.NewServeMux()
	for _, c := range []*checks{m.health, m.ready} {
		answer := func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, reasons) }
		mux.HandleFunc(c.prefix, answer)
		mux.HandleFunc(c.prefix+"/", answer)
	}
	return mux
}

// maxAsked limits the size of request bodies for debug pages, because net/http/pprof reads them into
// memory.
const maxAsked = 64 << 10

// debugHandler serves all debug pages.
func (m *Manager) debugHandler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/healthz/", "/readyz", "/readyz/"} {
		mux.Handle(path, m.Probes())
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/status", m.serveStatus)
	all := http.NewServeMux()
	all.Handle("/", ownPages(mux))
	all.Handle(debug.Path, m.Debug()) // rejects requests from other origins itself, but allows links
	return http.MaxBytesHandler(all, maxAsked)
}

// ownPages rejects requests that browsers make on behalf of pages from other origins. Such pages could not
// read the response, but they could keep the process busy. Browsers report the origin only to trustworthy
// addresses, meaning https or the loopback interface.
func ownPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, "A page of another origin may not ask for this, nor lead to it. Type the address, or begin at "+debug.Path+".", http.StatusForbidden)
		}
	})
}

// Debug returns the handler for debug.Path, for programs with their own server; restrict access to it.
// The manager's own server at PprofBindAddress includes it.
func (m *Manager) Debug() *debug.Process {
	return debug.New(debug.Options{
		Contents: m.opts.DebugContents, Informers: m.clusters, Controllers: m.controllers.views,
		Election: func() *leaderelection.Status {
			if m.elector == nil {
				return nil
			}
			return new(m.elector.Status())
		},
		Groups: func() []debug.Membership {
			if m.group == nil {
				return nil
			}
			return []debug.Membership{m.group}
		},
		Recorder: m.opts.Factory.Flight, Recording: m.cfg.Recorder,
	})
}

// clusters returns the informers for all clusters, starting with the manager's own.
func (m *Manager) clusters() (all []debug.Cluster) {
	m.mu.Lock()
	informers := maps.Clone(m.informers)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(informers)) {
		all = append(all, debug.Cluster{Name: name, Informers: informers[name]})
	}
	return all
}

// Report is a snapshot of a manager. It can be encoded as JSON.
type Report struct {
	State       string // "not started", "running" or "stopping"
	Groups      []GroupReport
	Election    *leaderelection.Status             // nil if there is no election
	Sharding    *membership.Status                 // nil if there is no sharding
	Controllers []controller.Status                // controllers that have not stopped: those created with ControllerOptions, oldest first, and then others
	Clusters    map[string][]sharedinformer.Status // informers by cluster name, including those added by AddInformers; the manager's own cluster is ""
}

// statusOf returns the status of the informers. If source, which may be user code, panics, it returns a
// status with the error.
func statusOf(cluster string, source metrics.InformerSource) (all []sharedinformer.Status) {
	err := failure.Apart("the status of the informers", func() error {
		all = source.Status()
		return nil
	})
	if err != nil {
		now := time.Now()
		failed := &failure.Failure{Resource: cluster, Phase: failure.PhaseHook, Err: err, Attempts: 1, Since: now, Last: now}
		return []sharedinformer.Status{{Reflector: reflector.Status{Resource: cluster}, Failure: failed}}
	}
	return all
}

// GroupReport is the part of a Report that describes a single group.
type GroupReport struct {
	Group   string
	Running []string // runnables that have started and not yet returned; they may still be waiting for caches
	Waiting []string // runnables that will start when the group does
}

// Report returns a snapshot of the manager.
func (m *Manager) Report() Report {
	m.mu.Lock()
	report := Report{State: string(m.state), Clusters: map[string][]sharedinformer.Status{}}
	informers := maps.Clone(m.informers)
	m.mu.Unlock()
	report.Controllers = m.controllers.report()
	for cluster, source := range informers {
		report.Clusters[cluster] = statusOf(cluster, source)
	}
	for n, g := range m.groups {
		running, waiting := g.status()
		report.Groups = append(report.Groups, GroupReport{Group(n).String(), running, waiting})
	}
	if m.elector != nil {
		status := m.elector.Status()
		report.Election = &status
	}
	if m.group != nil {
		status := m.group.Status()
		report.Sharding = &status
	}
	return report
}
