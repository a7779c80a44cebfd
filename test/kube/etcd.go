package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	neturl "net/url"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdSocket is etcd's Unix socket, relative to the working directory. Only this process can reach the
// store, and no port is needed.
const (
	etcdSocket   = "unix://etcd.sock"
	etcdPeerFile = "etcd-peer.sock" // etcd insists on listening there, but nothing connects
)

// etcdStart is how long etcd may take to start. It is ready in a fraction of a second unless the machine is
// very busy.
const etcdStart = time.Minute

// startEtcd starts a single-member store in the home directory, listening at a URL. A nonzero quota limits
// its size in bytes. It does not sync to disk, so acknowledged writes survive a process crash, but not a
// machine crash.
func startEtcd(h *home, at string, quota int64) (e *embed.Etcd, err error) {
	c := embed.NewConfig()
	c.Dir = h.path("etcd")
	c.UnsafeNoFsync = true
	c.QuotaBackendBytes = quota
	c.LogLevel = "error"
	c.LogOutputs = []string{h.log}
	c.Name = "millrace"
	// There are no other members, so don't wait a second before the election.
	c.TickMs, c.ElectionMs = 10, 100
	c.ListenClientUrls = []neturl.URL{mustURL(at)}
	c.ListenPeerUrls = []neturl.URL{mustURL("unix://" + etcdPeerFile)}
	// These addresses are not used, but etcd requires some of this form.
	c.AdvertiseClientUrls = []neturl.URL{mustURL("http://127.0.0.1:2379")}
	c.AdvertisePeerUrls = []neturl.URL{mustURL("http://127.0.0.1:2380")}
	c.InitialCluster = c.InitialClusterFromName(c.Name)

	defer func() {
		if p := recover(); p != nil { // etcd panics, for example, if it cannot write
			e, err = nil, fmt.Errorf("start etcd in %s: %v; for details see the log, %s", c.Dir, p, h.log)
		}
	}()
	e, err = embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", c.Dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		e.Close()
		return nil, fmt.Errorf("start etcd in %s: %w", c.Dir, err)
	case <-time.After(etcdStart):
		e.Close()
		return nil, fmt.Errorf("etcd in %s is not ready after %v; the log is %s", c.Dir, etcdStart, h.log)
	}
}

const (
	// etcdAnswer is how long a running etcd may take to respond.
	etcdAnswer = 5 * time.Second
	// etcdPatience is how long to poll an etcd that may still be starting.
	etcdPatience = 15 * time.Second
)

// awaitEtcd returns nil once one of the stores at the comma-separated URLs responds. If none does,
// kube-apiserver would take longer to notice and would not report the URLs.
func awaitEtcd(urls string) error {
	for began := time.Now(); ; time.Sleep(readyPoll) {
		err := askEtcds(urls)
		if err == nil {
			return nil
		}
		if time.Since(began) > etcdPatience {
			return fmt.Errorf("%w: start or resume it first", err)
		}
	}
}

// askEtcds tries each store once until one responds.
func askEtcds(urls string) error {
	var errs []error
	for url := range strings.SplitSeq(urls, ",") {
		err := askEtcd(url)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no etcd responds: %w", errors.Join(errs...))
}

// askEtcd accepts any HTTP response. A store with TLS requires certificates that are unknown here, so a
// connection suffices.
func askEtcd(url string) error {
	u, err := neturl.Parse(url)
	if err != nil {
		return err
	}
	if u.Scheme != "http" {
		c, err := net.DialTimeout("tcp", u.Host, etcdAnswer)
		if err != nil {
			return err
		}
		return c.Close()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: etcdAnswer}
	resp, err := client.Get(u.JoinPath("health").String())
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func mustURL(s string) neturl.URL {
	u, err := neturl.Parse(s)
	if err != nil {
		panic(err)
	}
	return *u
}

// compact makes etcd drop all revisions before the current one, which it returns.
func compact(ctx context.Context, e *embed.Etcd) (int64, error) {
	now, err := e.Server.Range(ctx, &pb.RangeRequest{Key: []byte("/"), CountOnly: true})
	if err != nil {
		return 0, fmt.Errorf("read the current revision: %w", err)
	}
	rev := now.Header.Revision
	if _, err := e.Server.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true}); err != nil {
		return 0, fmt.Errorf("compact etcd at revision %d: %w", rev, err)
	}
	return rev, nil
}

// defragment makes etcd release unused disk space, and accept writes again after it was full.
func defragment(ctx context.Context, e *embed.Etcd) error {
	if err := e.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment etcd: %w", err)
	}
	_, err := e.Server.Alarm(ctx, &pb.AlarmRequest{
		MemberID: uint64(e.Server.MemberID()), Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("clear etcd's alarm: %w", err)
	}
	return nil
}
