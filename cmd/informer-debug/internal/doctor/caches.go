package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/compare"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
)

const (
	comparePatience = 10 * time.Second // timeout for comparing with the server, including the wait for lagging caches
	certain         = 5 * time.Second  // a live watch delivers a change within this time
	comparedAtOnce  = 4
	comparedObjects = 20_000 // maximum number of objects per cache; listing more would burden a server without being asked to
)

// compare compares the process's caches with the cluster of the kubeconfig. A missing kubeconfig or an
// unreachable cluster is not a problem with the process.
func (x *examination) compare(ctx context.Context, s terminal.Streams, v *sight.Sight) {
	const about = "caches"
	at, err := v.Server(s)
	if errors.Is(err, config.ErrNoConfig) {
		err = errors.New("there is no kubeconfig")
	}
	if err != nil {
		x.add(levelOK, about, "", "not compared with the server: %v", err)
		return
	}
	defer at.Client.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, comparePatience, fmt.Errorf("no response from %s within %s", at.Server, comparePatience))
	defer cancel()
	all := len(x.status.Informers)
	results, failures := make([]*compare.Result, all), make([]error, all)
	selectors, unread := make([]string, all), make([]error, all) // see leavesAllOut
	turns := make(chan struct{}, comparedAtOnce)
	var running sync.WaitGroup
	for n := range x.status.Informers {
		i := &x.status.Informers[n]
		if !x.worthComparing(i) {
			continue
		}
		running.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[n], failures[n] = compare.Informer(ctx, v, at, i, nil)
			if failures[n] == nil && i.Objects == 0 && i.Selection == shard.SelectionNone {
				selectors[n], unread[n] = leavesAllOut(ctx, v, at, i)
			}
		})
	}
	running.Wait()
	said := map[string]bool{}
	for n, r := range results {
		doubt := ""
		switch err := failures[n]; {
		case r != nil && r.Doubt != "":
			doubt = fmt.Sprintf("%s may not be the process's cluster (%s)", at.Server, r.Doubt)
		case r == nil && err != nil:
			doubt = err.Error()
		case r != nil:
			x.differs(r, &x.status.Informers[n])
			if unread[n] != nil {
				doubt = unread[n].Error()
			}
		}
		if selectors[n] != "" {
			x.add(levelWarning, r.Informer, "check its labels and fields", "caches nothing although the server has objects: its selector %s matches none", selectors[n])
		}
		if doubt != "" && !said[doubt] {
			said[doubt] = true
			x.add(levelOK, about, "", "not compared with the server: %s", doubt)
		}
	}
}

// worthComparing reports whether i's cache should match the server's state and is small enough to be listed
// unasked.
func (x *examination) worthComparing(i *debug.Informer) bool {
	if !i.Synced || i.Reflector.Attempts > 0 || i.Reflector.State == reflector.Stopped || i.Cluster != "" {
		return false
	}
	if i.Objects > comparedObjects {
		x.add(levelOK, i.Reflector.Resource, x.command("check")+" compares it", "not compared with the server: it contains %d objects, more than %d", i.Objects, comparedObjects)
		return false
	}
	return true
}

// differs reports objects whose cached state differs from the server's.
func (x *examination) differs(r *compare.Result, i *debug.Informer) {
	if len(r.Differences) > 0 {
		first := strings.Join(strings.Fields(r.Differences[0].String()), " ")
		text := strings.TrimPrefix(r.Sentence(), r.Informer+": ")
		level := levelProblem
		switch silence := i.Silence(x.status.At); {
		case r.Undelivered >= certain:
			text = fmt.Sprintf("the watch has received nothing for %s while %s: it is dead, or loses events", terminal.Duration(r.Undelivered), differ(len(r.Differences)))
		case r.Unsure != "":
			level = levelWarning
			if i.Trouble(x.status.At) == "" && silence > 0 {
				text += "; its watch has received nothing for " + terminal.Duration(silence)
			}
		}
		x.add(level, r.Informer, x.command("check")+" shows all", "the cache differs from the server: %s; %s", first, text)
	}
	if r.Share && len(r.Differences) == 0 {
		x.add(levelOK, r.Informer, "", "%s", strings.TrimPrefix(r.Sentence(), r.Informer+": "))
	}
	if len(r.Relabelled) > 0 {
		x.add(levelWarning, r.Informer, x.command("why "+object.FormatKey(r.Relabelled[0]))+" shows how they differ; Options.DetectMutations of sharedinformer or factory names changed objects in the log",
			"%d cached objects, such as %s, have different labels than the same version on the server: the program or a transform modifies one of them, and the others may share memory with it", len(r.Relabelled), object.FormatKey(r.Relabelled[0]))
	}
}

// differ describes how many objects differ.
func differ(n int) string {
	if n == 1 {
		return "this object differed"
	}
	return fmt.Sprintf("%d objects differed", n)
}

// leavesAllOut returns the selector of an informer whose cache is empty even though the server has objects of
// its kind.
func leavesAllOut(ctx context.Context, v *sight.Sight, at cluster.Target, i *debug.Informer) (selector string, err error) {
	scopes, err := sight.Scopes(i)
	if err != nil || scopes[0].Selector() == "" {
		return "", err
	}
	mapping, err := at.Resolve(ctx, scopes[0].Resource, cluster.Patience(v.Config), nil)
	if err != nil {
		return "", err
	}
	of := rest.ResourceForMapping[*metav1.PartialObjectMetadata](at.Client, mapping).Namespace(scopes[0].Namespace)
	for _, err := range of.List(ctx, metav1.ListOptions{Limit: 1}).Items {
		if err != nil {
			return "", err
		}
		return scopes[0].Selector(), nil
	}
	return "", nil
}
