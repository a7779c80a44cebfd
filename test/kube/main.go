// Command kube runs a real API server for tests and experiments. It runs etcd and kube-apiserver in one
// process, or each in its own, on the loopback interface, and needs no installation.
//
//	go -C test/kube run .                    # until Ctrl-C; prints the kubeconfig to use
//	go -C test/kube run . --dir /tmp/k       # keeps data, CA, tokens and port for the next run
//	go -C test/kube run . -- --v=4           # passes arguments after -- to kube-apiserver
//
// It is a separate module because kube-apiserver needs different versions of the k8s.io libraries than the
// root module.
//
// # Versions
//
// go.mod is for one Kubernetes minor version. For other versions, pass a file from the directory minors to
// -modfile:
//
//	go -C test/kube run -modfile=minors/v1.37.mod .
//
// Command ./minor creates such a file.
//
// # Features and limits
//
// The API is complete: every built-in group, custom resources, RBAC, priority and fairness, the watch
// cache, the namespaces default, kube-system, kube-public and kube-node-lease, and the Service
// "kubernetes". The alpha features ShardedListAndWatch and CBORServingAndStorage are enabled.
//
// There are no controllers, no scheduler and no kubelet. Therefore Pods remain Pending (create a Binding
// and patch the status to simulate a node), and a Pod bound to a node is removed only if deleted with
// gracePeriodSeconds=0. A deleted Namespace remains Terminating, and dependents of deleted owners are not
// garbage collected. No Namespace gets a "default" ServiceAccount; Pods do not need one, because that
// admission plugin is disabled.
//
// /version returns v0.0.0-master, as it does for any kube-apiserver not built by the release scripts.
//
// # Users
//
// The kubeconfig has three contexts: admin (a token in the group system:masters), admin-cert (a client
// certificate with the same rights) and nobody (a token without any rights, to test forbidden requests).
//
// # Control mode
//
// With --control it is controlled by another program, such as package envtest. It prints one JSON line to
// stdout when it is ready ([Ready]) or cannot become ready ([Answer]), since a full disk may have no room
// for the log. It then reads commands from stdin, one per line, and responds to each with one JSON line
// ([Answer]). The command "compact" makes etcd drop its history, and "defragment" makes it release unused
// space and accept writes again after it was full. It shuts down when stdin is closed, so it never outlives
// the program that started it, however that program dies. Its stderr should be the log in --dir.
//
// # Separate processes
//
// With --only-etcd it runs only etcd, on a TCP port of the loopback interface. With --etcd it runs only
// kube-apiserver, using the etcd at that URL. You can then kill and stop the two processes separately and
// put a proxy between them. Several API servers can also share a store; give them copies of the same keys.
//
// # Provoking a real 410 Expired
//
// Compacting is not enough, because the watch cache also keeps events, and snapshots for continue tokens.
// Either compact and restart with the same --dir and --port, so that the new watch cache starts at the
// current resource version. Or run with "-- --watch-cache=false", so that all reads go to etcd, and
// compact.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// shutdownGrace is how long a shutdown may take before the process just exits. kube-apiserver itself waits
// up to a minute for requests in progress.
const shutdownGrace = 10 * time.Second

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "keep data, keys, port, kubeconfig and log in this `directory` (default: a temporary one, removed on exit)")
	flag.IntVar(&o.port, "port", 0, "`port` of the API server on 127.0.0.1 (default: the last run's in --dir, or a free one)")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "write the kubeconfig to this `file` (default: kubeconfig in --dir)")
	flag.StringVar(&o.etcd, "etcd", "", "run only kube-apiserver, using the etcd at this `URL`")
	flag.BoolVar(&o.onlyEtcd, "only-etcd", false, "run only etcd, on --port")
	flag.Int64Var(&o.quota, "quota", 0, "maximum size of etcd's data in `bytes` (default: 2 GiB)")
	flag.BoolVar(&o.control, "control", false, "print JSON to stdout, execute commands from stdin, exit when stdin is closed")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: kube [flags] [-- kube-apiserver flags]")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.extra = flag.Args()
	if o.etcd != "" && (o.onlyEtcd || o.quota != 0) {
		fmt.Fprintln(os.Stderr, "kube: --etcd is for kube-apiserver alone: leave out --only-etcd and --quota")
		os.Exit(2)
	}

	stderr := os.Stderr // run redirects os.Stderr to the log
	if err := run(o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(stderr, "kube:", err)
		if o.control {
			_ = json.NewEncoder(os.Stdout).Encode(Answer{Error: err.Error()}) // the reader may be gone
		}
		os.Exit(1)
	}
}

// options are the command-line options.
type options struct {
	dir        string
	port       int
	kubeconfig string
	etcd       string // URL; empty to start one
	onlyEtcd   bool
	quota      int64 // in bytes; 0 for etcd's default
	control    bool
	extra      []string // for kube-apiserver
}

// Ready is the message printed to stdout in control mode once the API server is ready. For etcd alone only
// the URL and the log are set.
type Ready struct {
	URL         string `json:"url"`         // https://127.0.0.1:port, or http://127.0.0.1:port for etcd
	CA          string `json:"ca"`          // file with the CA that signed the server's certificate
	ClientCert  string `json:"clientCert"`  // file with a client certificate with all rights
	ClientKey   string `json:"clientKey"`   // file with the certificate's key
	Kubeconfig  string `json:"kubeconfig"`  // file with all of the above inline
	AdminToken  string `json:"adminToken"`  // bearer token with all rights
	NobodyToken string `json:"nobodyToken"` // bearer token without rights
	Log         string `json:"log"`         // file
}

// run starts everything, reports when it is ready, and returns once everything has exited.
func run(o options, stdin io.Reader, stdout io.Writer) error {
	keeps := o.dir != ""
	if !keeps {
		tmp, err := os.MkdirTemp("", "millrace-kube-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		o.dir = tmp
	}
	h, err := openHome(o.dir, o.kubeconfig, !o.control)
	if err != nil {
		return err
	}
	defer h.close()
	if o.port, err = h.choosePort(o.port); err != nil {
		return err
	}
	if o.onlyEtcd {
		return runEtcd(o, h, stdin, stdout)
	}
	var db *embed.Etcd // nil if it runs in another process
	if o.etcd != "" {
		err = awaitEtcd(o.etcd)
	} else if db, err = startEtcd(h, etcdSocket, o.quota); err == nil {
		defer db.Close()
	}
	if err != nil {
		return err
	}
	return runServer(o, h, db, keeps, stdin, stdout)
}

// runEtcd runs only etcd, until stdin is closed or a signal arrives.
func runEtcd(o options, h *home, stdin io.Reader, stdout io.Writer) error {
	url := fmt.Sprintf("http://127.0.0.1:%d", o.port)
	db, err := startEtcd(h, url, o.quota)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := h.keepPort(o.port); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.control {
		go serveControl(stdin, stdout, db, stop) // runs until the process exits; see below
		err = json.NewEncoder(stdout).Encode(Ready{URL: url, Log: h.log})
	} else {
		_, err = fmt.Fprintf(stdout, "etcd is ready at %s, its log is %s\nCtrl-C stops it.\n", url, h.log)
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-db.Err():
		return fmt.Errorf("etcd: %w; the log is %s", err, h.log)
	}
}

// runServer runs kube-apiserver, using db unless that is nil.
func runServer(o options, h *home, db *embed.Etcd, keeps bool, stdin io.Reader, stdout io.Writer) error {
	url := fmt.Sprintf("https://127.0.0.1:%d", o.port)
	if err := h.writeKubeconfig(url); err != nil {
		return err
	}

	// The command's context is canceled by SIGINT, SIGTERM or RequestShutdown; a second signal kills the
	// process immediately.
	cmd := app.NewAPIServerCommand()
	cmd.SetArgs(apiserverArgs(h, o.port, cmp.Or(o.etcd, etcdSocket), o.extra))
	stop := context.AfterFunc(cmd.Context(), func() {
		if o.etcd != "" && askEtcds(o.etcd) != nil {
			fmt.Fprintln(os.Stderr, "kube: no etcd responds, so there is nothing to wait for")
			os.Exit(0)
		}
		time.AfterFunc(shutdownGrace, func() {
			fmt.Fprintln(os.Stderr, "kube: the shutdown took more than", shutdownGrace)
			os.Exit(1)
		})
	})
	defer stop()
	served := make(chan error, 1)
	go func() { served <- cmd.Execute() }()

	if o.control {
		// The goroutine runs until the process exits, because a read from stdin cannot be interrupted. It
		// requests a shutdown even before the server is ready.
		go serveControl(stdin, stdout, db, func() { genericapiserver.RequestShutdown() })
	}
	if err := awaitReady(cmd.Context(), url, h, served); err != nil {
		return fmt.Errorf("%w; the log is %s", err, h.log)
	}
	err := h.keepPort(o.port)
	if err != nil {
		return err
	}
	if o.control {
		err = announce(stdout, url, h)
	} else {
		err = greet(stdout, url, h, keeps)
	}
	if err != nil {
		return err
	}
	if err := <-served; err != nil {
		return fmt.Errorf("kube-apiserver: %w; the log is %s", err, h.log)
	}
	return nil
}

// announce reports the API server's address to a controlling program.
func announce(stdout io.Writer, url string, h *home) error {
	return json.NewEncoder(stdout).Encode(Ready{
		URL: url, CA: h.caFile(), ClientCert: h.path("admin.crt"), ClientKey: h.path("admin.key"),
		Kubeconfig: h.kubeconfig, AdminToken: h.adminToken, NobodyToken: h.nobodyToken, Log: h.log,
	})
}

// greet prints the address for a human.
func greet(stdout io.Writer, url string, h *home, keeps bool) error {
	after := "Ctrl-C stops it and deletes its data; use --dir to keep the data."
	if keeps {
		after = "Ctrl-C stops it. Start it with the same --dir to keep its data, CA, tokens and port."
	}
	_, err := fmt.Fprintf(stdout, `kube-apiserver is ready at %s, its log is %s

    export KUBECONFIG=%s

Contexts: admin (all rights), admin-cert (the same with a client certificate), nobody (no rights).
There are no controllers and no nodes: Pods remain Pending.
%s
`, url, filepath.Clean(h.log), h.kubeconfig, after)
	return err
}
