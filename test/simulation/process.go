package simulation

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
)

// process is a client process with a link to the cluster. As through a load balancer, the link leads to one
// of the servers.
type process struct {
	client  *rest.Client
	link    *network.Link
	manners *manners
	latency time.Duration
	garbled bool         // bytes may be corrupted
	front   atomic.Int64 // index of the server for new connections
}

// process starts a new process.
func (p *play) process(cbor bool) *process {
	n := len(p.processes)
	c := &process{
		link: p.net.Link(name("process", n)), garbled: p.World.Garbled,
		latency: time.Duration(1+p.rand.IntN(40)) * time.Millisecond,
	}
	c.front.Store(int64(n % len(p.fronts)))
	c.heal()
	endpoints := make([]*apiservertest.Endpoint, len(p.fronts))
	for i, f := range p.fronts {
		endpoint, err := f.Pipe()
		if err != nil {
			panic(err)
		}
		endpoints[i] = endpoint
	}
	dial := c.link.Dialer(func(ctx context.Context, conn net.Conn) error {
		return endpoints[c.front.Load()].Connect(ctx, conn)
	})
	c.manners = &manners{play: p, called: name("process", n), until: map[request]time.Time{}}
	client, err := rest.NewClient(&config.Config{
		Host: endpoints[0].URL, Dial: dial, CBOR: cbor, Logger: slog.New(slog.DiscardHandler),
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			c.manners.next = next
			return c.manners
		},
	}, sharedScheme())
	if err != nil {
		panic(err)
	}
	c.client = client
	p.processes = append(p.processes, c)
	return c
}

// heal repairs the link. It always has some latency, so that no two arrivals share an instant.
func (c *process) heal() { c.link.Set(network.Conditions{Latency: c.latency}) }

// harm returns the fault to inject into a connection after some bytes.
func (c *process) harm(s Step) network.Harm {
	if c.garbled && s.Who%3 == 0 {
		return network.Flip
	}
	return []network.Harm{network.Reset, network.Vanish}[s.Who%2]
}

// trouble lists the possible faults of a link.
var trouble = []func(c *process, s Step){
	func(c *process, _ Step) { c.heal() },
	func(c *process, _ Step) { c.link.Cut() },
	func(c *process, _ Step) { c.link.Vanish() },
	func(c *process, _ Step) { c.link.Set(network.Conditions{Latency: c.latency, Partition: true}) },
	func(c *process, _ Step) { c.link.Set(network.Conditions{Latency: c.latency, Refuse: true}) },
	func(c *process, s Step) {
		c.link.Set(network.Conditions{Latency: c.latency, Jitter: s.For / 100, DialDelay: s.For / 10})
	},
	func(c *process, s Step) {
		c.link.Set(network.Conditions{Latency: c.latency, Loss: float64(s.N%50) / 100})
	},
	func(c *process, s Step) {
		c.link.Set(network.Conditions{Latency: c.latency, Bandwidth: 200 + 37*s.N, Segment: 1 + s.N%200})
	},
	func(c *process, s Step) {
		c.link.BreakNext(network.Break{Toward: network.Direction(s.N % 2), After: int64(7 * s.N), Do: c.harm(s)})
	},
	func(c *process, s Step) {
		c.link.Break(network.Break{Toward: network.Direction(s.N % 2), After: int64(s.N), Do: c.harm(s)})
	},
}

// spoilLink changes the faults of a process's link.
func (p *play) spoilLink(s Step) {
	c := p.processes[s.Who%len(p.processes)]
	kind := s.N % len(trouble)
	p.say("play", "link %d: trouble %d", s.Who%len(p.processes), kind)
	trouble[kind](c, s)
}

// change routes a process's next connections to another server.
func (p *play) change(s Step) {
	c := p.processes[s.Who%len(p.processes)]
	c.front.Store(int64(s.N % len(p.fronts)))
	c.link.Cut()
}
