package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/millrace-dev/millrace/envtest"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/test/software/cluster"
)

// rounds is the number of rounds per kind of informer.
const rounds = 3

// minor is the Kubernetes version of the controllers and the server. It must match the module in the
// kubernetes directory.
const minor = "1.37"

// figures are the measurements reported by the controllers' process; see kubernetes/figures.go.
type figures struct {
	CPU      float64 // seconds
	Heap     int64   // bytes in use
	Peak     int64   // bytes
	Requests map[string]int
}

// round is the result of one round, with its own cluster.
type round struct {
	Informers string // stock or millrace
	Seconds   float64
	Objects   int   // at the end
	Empty     int64 // bytes in use before any object was created
	figures

	state cluster.State
}

// playControllers runs the rounds, in which the controllers use client-go's informers and Millrace's by
// turns.
func (b *bench) playControllers(ctx context.Context) (*comparison, error) {
	if err := os.Setenv("MILLRACE_KUBERNETES", minor); err != nil { // for envtest
		return nil, err
	}
	module := filepath.Join(b.root, "test", "software", "kubernetes")
	program := filepath.Join(b.cache, "kubernetes")
	fmt.Println("building Kubernetes' controllers (takes a quarter of an hour the first time)")
	if _, err := output(ctx, module, "go", "build", "-o", program, "."); err != nil {
		return nil, err
	}
	c := &comparison{Date: time.Now().UTC().Format(time.DateOnly)}
	var err error
	if c.Revision, err = b.revision(ctx); err != nil {
		return nil, err
	}
	for n := range rounds {
		for _, informers := range []string{"stock", "millrace"} {
			log := filepath.Join(b.cache, fmt.Sprintf("kubernetes-%d.%s.log", n+1, informers))
			fmt.Printf("kubernetes, %s, round %d: see %s\n", informers, n+1, log)
			r, err := playRound(ctx, program, informers, log)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d; see %s: %w", informers, n+1, log, err)
			}
			fmt.Printf("%.0f s, %d objects, %.1f s CPU, heap %.1f MB, peak %.1f MB\n", r.Seconds, r.Objects, r.CPU, megabytes(r.Heap), megabytes(r.Peak))
			c.add(r)
		}
	}
	return c, nil
}

// playRound runs one round, with its own cluster and process.
func playRound(ctx context.Context, program, informers, log string) (_ *round, err error) {
	server, err := envtest.Launch(ctx, envtest.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	cfg, err := config.LoadWith(config.LoadOptions{Kubeconfig: server.Kubeconfig})
	if err != nil {
		return nil, err
	}
	client, err := rest.NewClient(cfg, scheme.New())
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	nodes, err := cluster.New(ctx, client)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	controllers, err := startControllers(ctx, program, informers, server.Kubeconfig, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, controllers.stop()) }()
	if err := nodes.Ready(ctx); err != nil {
		return nil, err
	}
	before, err := controllers.measure()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := nodes.Play(ctx); err != nil {
		return nil, err
	}
	r := &round{Informers: informers, Seconds: time.Since(begin).Seconds(), Empty: before.Heap}
	if r.figures, err = controllers.measure(); err != nil {
		return nil, err
	}
	r.state, err = nodes.State(ctx)
	r.Objects = r.state.Objects()
	return r, err
}

// process is the program that runs Kubernetes' controllers.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	log *os.File
}

func startControllers(ctx context.Context, program, informers, kubeconfig, log string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program, "-informers="+informers, "-kubeconfig="+kubeconfig), log: file}
	p.cmd.Stderr = file
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if !p.out.Scan() {
		return nil, errors.Join(errors.New("the controllers exited before they were ready"), p.stop())
	}
	return p, nil
}

// measure requests the figures.
func (p *process) measure() (f figures, err error) {
	if _, err := fmt.Fprintln(p.in, "measure"); err != nil {
		return f, err
	}
	if !p.out.Scan() {
		return f, errors.Join(errors.New("the controllers do not respond"), p.out.Err())
	}
	return f, json.Unmarshal(p.out.Bytes(), &f)
}

// stop stops the process. If it does not exit within a minute, stop kills it and returns an error.
func (p *process) stop() error {
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	return errors.Join(p.in.Close(), p.cmd.Wait(), p.log.Close())
}
