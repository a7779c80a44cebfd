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

// etcdSocket is the unix socket of etcd, relative to the working directory.
// Nothing but this process can reach the store, and no port is needed.
const (
	etcdSocket   = "unix://etcd.sock"
	etcdPeerFile = "etcd-peer.sock" // every etcd listens there, and nobody calls
)

// etcdStart is how long etcd may take to start; it is ready in a fraction of a
// second unless the machine is very busy.
const etcdStart = time.Minute

// startEtcd starts a store of one member in the home directory, for clients at a URL.
// A quota in bytes that is not 0 says when it is full. It does not
// sync to disk: what it has acknowledged survives the death of the process,
// but not of the machine.
func startEtcd(h *home, at string, quota int64) (e *embed.Etcd, err error) {
	c := embed.NewConfig()
	c.Dir = h.path("etcd")
	c.UnsafeNoFsync = true
	c.QuotaBackendBytes = quota
	c.LogLevel = "error"
	c.LogOutputs = []string{h.log}
	c.Name = "millrace"
	// There is nobody to elect but itself: do not wait a second for it.
	c.TickMs, c.ElectionMs = 10, 100
	c.ListenClientUrls = []neturl.URL{mustURL(at)}
	c.ListenPeerUrls = []neturl.URL{mustURL("unix://" + etcdPeerFile)}
	// Advertised to nobody, but etcd insists on addresses that look like such.
	c.AdvertiseClientUrls = []neturl.URL{mustURL("http://127.0.0.1:2379")}
	c.AdvertisePeerUrls = []neturl.URL{mustURL("http://127.0.0.1:2380")}
	c.InitialCluster = c.InitialClusterFromName(c.Name)

	defer func() {
		if p := recover(); p != nil { // it panics where it cannot write, for one
			e, err = nil, fmt.Errorf("start etcd in %s: %v; the log, %s, may say more", c.Dir, p, h.log)
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
	// etcdAnswer is how long an etcd may take to answer that is there already.
	etcdAnswer = 5 * time.Second
	// etcdPatience is for how long one is asked that may still be starting.
	etcdPatience = 15 * time.Second
)

// awaitEtcd returns nil when one of the stores at some URLs, with commas between, answers.
// kube-apiserver would take longer to find that none does, and not name it.
func awaitEtcd(urls string) error {
	for began := time.Now(); ; time.Sleep(readyPoll) {
		err := askEtcds(urls)
		if err == nil {
			return nil
		}
		if time.Since(began) > etcdPatience {
			return fmt.Errorf("%w: start it first, or let it go on", err)
		}
	}
}

// askEtcds asks each once, until one answers.
func askEtcds(urls string) error {
	var errs []error
	for url := range strings.SplitSeq(urls, ",") {
		err := askEtcd(url)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no etcd answers: %w", errors.Join(errs...))
}

// askEtcd wants any answer to HTTP. What has TLS asks for certificates that are not known
// here, so that a connection has to do.
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

// compact makes etcd forget every revision before the current one, and returns
// the current one.
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

// defragment gives unused space back to the disk, and lets etcd write again if it had
// refused to since it was full.
func defragment(ctx context.Context, e *embed.Etcd) error {
	if err := e.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment etcd: %w", err)
	}
	_, err := e.Server.Alarm(ctx, &pb.AlarmRequest{
		MemberID: uint64(e.Server.MemberID()), Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("end etcd's alarm: %w", err)
	}
	return nil
}
