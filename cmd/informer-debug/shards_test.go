package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// memberLease writes the Lease of a member of the group carts, which has 16 slots.
func memberLease(t *testing.T, srv *apiservertest.Server, name, slots string, change ...func(*coordinationv1.Lease)) {
	t.Helper()
	now := metav1.NowMicro()
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "carts-" + name, Labels: map[string]string{membership.GroupLabel: "carts"}, Annotations: map[string]string{
			"shard.millrace.dev/layout": "16 slots; carts by uid", "shard.millrace.dev/slots": slots, "shard.millrace.dev/weight": "1",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now, LeaseDurationSeconds: new(int32(3600))},
	}
	for _, f := range change {
		f(l)
	}
	_, err := srv.Put(l)
	require.NoError(t, err)
}

// The groups of a namespace are read from their Leases.
func TestShardsOfACluster(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	r := invoke(t, "shards", "-n", "shop", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, "no groups in namespace shop: no Lease has the label shard.millrace.dev/group")

	memberLease(t, srv, "m1", "0-15")
	r = invoke(t, "shards", "-n", "shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `^group carts: 16 slots, 1 member, 0 without an owner, 0 moving, the largest has 0% more than its share\nMEMBER +WEIGHT +HAS +WANTS +SILENT +STATE\nm1 +1 +16 +16 +\S+ +ok\n$`, r.Out)

	memberLease(t, srv, "m1", "0-13")
	memberLease(t, srv, "m2", "")
	memberLease(t, srv, "gone", "14", func(l *coordinationv1.Lease) {
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-2 * time.Hour)}
	})
	memberLease(t, srv, "odd", "0", func(l *coordinationv1.Lease) { l.Annotations["shard.millrace.dev/layout"] = "8 slots; x\x1b[2J" })
	memberLease(t, srv, "other", "", func(l *coordinationv1.Lease) { l.Labels[membership.GroupLabel] = "orders" })
	r = invoke(t, "shards", "carts", "-n", "shop", "-o", "wide", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	lines := r.Lines()
	require.Regexp(t, `^group carts: 16 slots, 4 members, `, lines[0])
	require.Regexp(t, `^MEMBER +WEIGHT +HAS +WANTS +SILENT +STATE +LEASE +LAYOUT +SLOTS$`, lines[1])
	require.Regexp(t, `^gone +1 +1 +0 +2h0m\S+ +silent for too long +carts-gone +16 slots; carts by uid +14$`, lines[2])
	require.Regexp(t, `^m1 +1 +14 +\d+ +\S+ +ok +carts-m1 +16 slots; carts by uid +0-13$`, lines[3])
	require.Regexp(t, `^m2 +1 +0 +\d+ +`, lines[4])
	require.Regexp(t, `^odd +0 +0 +0 +\S+ +out: it uses "8 slots; x\\x1b\[2J", but the others use "16 slots; carts by uid"`, lines[5])
	require.Regexp(t, `^FROM +TO +MOVING +WAITED +HANDS +SLOTS$`, lines[6])
	require.Regexp(t, `^gone +m[12] +1 +- +- +14$`, lines[7])
	require.Regexp(t, `^m1 +m2 +\d+ +- +- +\d`, lines[8])
	require.NotContains(t, r.Out, "orders")
	require.NotContains(t, r.Out, "\x1b")

	r = invoke(t, "shards", "-n", "shop", "-o", "jsonl", server)
	require.Len(t, r.Lines(), 2)
	var group struct {
		Name    string
		Members []struct {
			Identity      string
			Has, Wants    int
			SilentSeconds float64
		}
		Moves []struct{ From, To, Slots string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.Lines()[0]), &group))
	require.Equal(t, "carts", group.Name)
	require.Len(t, group.Members, 4)
	require.Greater(t, group.Members[0].SilentSeconds, 7000.0)
	require.Equal(t, 16, group.Members[1].Wants+group.Members[2].Wants)
	r = invoke(t, "shards", "-n", "shop", "-o", "json", server)
	require.True(t, strings.HasPrefix(r.Out, "[\n"), r.Out)
	r = invoke(t, "shards", "orders", "-n", "shop", "-o", "yaml", "--watch", "-c", "2", "--interval", "100ms", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "name: orders\n")
	require.Contains(t, r.Out, "slots: 16\n")
	require.Contains(t, r.Out, "\n---\n")
	require.NotContains(t, r.Out, "!!")

	// A repeated look knows how long moves have been waiting.
	r = invoke(t, "shards", "carts", "-n", "shop", "-w", "-c", "2", "--interval", "100ms", "--no-headers", server)
	require.Regexp(t, `(?s)\nm1 +m2 +\d+ +- +-\n\ngroup carts: .*\nm1 +m2 +\d+ +\d+ms +-\n$`, r.Out)

	// -A shows the groups of all namespaces, and keeps groups of one name apart.
	memberLease(t, srv, "b1", "0-15", func(l *coordinationv1.Lease) { l.Namespace = "bank" })
	r = invoke(t, "shards", "-A", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `(?s)^group bank/carts: 16 slots, 1 member, .*\nb1 .*\n\ngroup shop/carts: 16 slots, 4 members, .*\n\ngroup shop/orders: 16 slots, 1 member, `, r.Out)
	r = invoke(t, "shards", "carts", "-A", "-o", "jsonl", server)
	require.Regexp(t, `^{"namespace":"bank","name":"carts",.*}\n{"namespace":"shop","name":"carts",.*}\n$`, r.Out)
	r = invoke(t, "shards", "nosuch", "-A", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, `no group "nosuch" in any namespace: no Lease has the label shard.millrace.dev/group=nosuch`)
	r = invoke(t, "shards", "-A", "-n", "shop", server)
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "-n shop and -A cannot be used together")
	r = invoke(t, "shards", "-A", "--attach=http://localhost:1")
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "a member reports its own groups")

	r = invoke(t, "shards", "nosuch", "-n", "shop", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, `no group "nosuch" in namespace shop: no Lease has the label shard.millrace.dev/group=nosuch`)
	srv.SetAuthorizer(apiservertest.Deny("", "leases"))
	r = invoke(t, "shards", "-n", "shop", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, "cannot list resource \"leases\"")
	require.Contains(t, r.ErrOut, `request the verbs "list"`)
	r = invoke(t, "shards", "-A", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, "list the Leases of groups in all namespaces: ")
	require.Contains(t, r.ErrOut, `request the verb "list" on leases in all namespaces; with -n NAMESPACE, it is needed only in that namespace`)
	srv.SetAuthorizer(nil)
	silent := srv.Faults().Add(apiservertest.Fault{Resource: "leases", Do: []apiservertest.Action{apiservertest.Silence{}}})
	r = invoke(t, "shards", "-n", "shop", "--request-timeout=3500ms", server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Regexp(t, `^! \S+  waiting       no answer from \S+ for 3(\.\d)?s \(the request is sent\)\ninformer-debug: .*for 3.5s`, r.ErrOut)
	srv.Faults().Remove(silent)
	r = invoke(t, "shards", "--replay", "x.rec")
	require.Equal(t, exit.CodeUsage, r.Code)
	require.Contains(t, r.ErrOut, "a recording (x.rec) has no information about shards")
	r = invoke(t, "shards", "--interval", "1ms", server)
	require.Equal(t, exit.CodeUsage, r.Code)
}

// A killed member keeps its slots until its Lease expires, and is reported as unhealthy.
func TestShardsOfASilentMember(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	silent := func(d time.Duration) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-d)} }
	}
	memberLease(t, srv, "m1", "0-7", silent(15*time.Minute))
	memberLease(t, srv, "m2", "8-15", silent(30*time.Minute)) // with a duration of one hour
	r := invoke(t, "shards", "-n", "shop", server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.Out, "16 slots, 2 members, 0 without an owner, 8 of silent members, ")
	require.Regexp(t, `(?m)^m1 .* 15m\S* +ok$`, r.Out)
	require.Regexp(t, `(?m)^m2 .* 30m\S* +silent$`, r.Out)
}

func TestShardsAreCompleted(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	memberLease(t, srv, "m1", "0-15")
	require.Contains(t, invoke(t, "__complete", "shards", "-n", "shop", server, "").Lines(), "carts")
	require.Equal(t, []string{"table", "wide", "json", "jsonl", "yaml"}, invoke(t, "__complete", "shards", "-o", "").Lines()[:5])
}

// replica is a member of a group with the state that the test sets.
type replica struct {
	shard.Share
	status  membership.Status
	holding membership.Holding
}

func (r *replica) Status() membership.Status { return r.status }
func (r *replica) Slot(n int) membership.Holding {
	h := r.holding
	h.Slot = n
	return h
}

// nothingOwned is a share without slots, as a replica has if other replicas own all of them.
func nothingOwned() shard.Share { return emptyShare{shard.Ordinal(0, 1)} }

type emptyShare struct{ shard.Share }

func (emptyShare) Owned() (shard.Slots, <-chan struct{}) { return shard.NewSlots(16), nil }

// A process reports the state of its group, and why names the member that has an object, even if
// the process does not know the UID and the cluster has to be asked.
func TestShardsOfAProcess(t *testing.T) {
	srv, server := debugtest.Cluster(t, apiservertest.Options{})
	client, err := rest.NewClient(&config.Config{Host: strings.TrimPrefix(server, "--server=")}, scheme.New())
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	now := time.Now()
	us := &replica{Share: nothingOwned(), status: membership.Status{
		Namespace: "shop", Group: "carts", Identity: "m1", Slots: 16, Seen: now, Owned: shard.NewSlots(16, 1, 2),
		Members: []membership.Member{{Identity: "m1", Weight: 1, Claims: shard.NewSlots(16, 1, 2, 3), Wanted: 2}, {Identity: "m2", Weight: 1}},
		Moves:   []membership.Move{{From: "m1", To: "m2", Slots: shard.NewSlots(16, 3), Since: now.Add(-time.Minute), Hands: 2}},
	}, holding: membership.Holding{Owner: "m2", To: "m2", Since: now.Add(-time.Hour)}}
	two := false           // groups of one name
	var looks atomic.Int32 // counted if not zero: the second fails
	f := factory.New(client, factory.Options{})
	pods := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: us}}})
	f.Start(t.Context())
	t.Cleanup(f.Wait)
	require.NoError(t, pods.WaitForSync(t.Context()))
	shown := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(f), Groups: func() []debug.Membership {
		if looks.Load() > 0 && looks.Add(1) == 3 {
			panic("not just now")
		}
		if two {
			namesake := *us
			namesake.status.Namespace = "bank"
			return []debug.Membership{us, &namesake}
		}
		return []debug.Membership{us}
	}}))
	defer shown.Close()
	at := "--attach=" + shown.URL
	status, err := debug.Attach(shown.URL, nil).Status(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, shard.SelectionNone, status.Informers[0].Selection, "it has a share")
	r := invoke(t, "shards", at)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `^group carts: 16 slots, 2 members, .*\nreported by m1, which works on 2 slots\nMEMBER(.*\n){3}FROM +TO +MOVING +WAITED +HANDS\nm1 +m2 +1 +1m\S* +2\n$`, r.Out)
	r = invoke(t, "shards", "carts", at, "-o", "wide")
	require.Contains(t, r.Out, "reported by m1, which works on 2 slots: 1-2\n")
	us.status.Refusal = errors.New("no right to leases")
	r = invoke(t, "shards", "carts", at)
	require.Contains(t, r.Out, "reported by m1, which does not participate: no right to leases\n")
	r = invoke(t, "shards", "orders", at)
	require.Contains(t, r.ErrOut, `has no group "orders"; its groups are ["shop/carts"]`)
	r = invoke(t, "shards", "carts", "-n", "shop", at)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	for _, named := range [][]string{{}, {"carts"}} {
		r = invoke(t, append(append([]string{"shards"}, named...), "-n", "bank", at)...)
		require.Equal(t, exit.CodeUnavailable, r.Code, r.Out)
		require.Contains(t, r.ErrOut, `in namespace bank; its groups are ["shop/carts"]`)
	}
	two = true
	r = invoke(t, "shards", at)
	require.Contains(t, r.Out, "group shop/carts: ")
	require.Contains(t, r.Out, "\ngroup bank/carts: ")
	two = false
	looks.Store(1)
	r = invoke(t, "shards", at, "--watch", "--interval=100ms", "-c", "4")
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Equal(t, 1, strings.Count(r.ErrOut, "no look"), "one look failed, and the next did not: %s", r.ErrOut)
	require.Equal(t, 3, strings.Count(r.Out, "group carts: "))
	us.status.Refusal = nil

	pod, err := srv.Get(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: "web-1"})
	require.NoError(t, err)
	slot := shard.SlotOf(shard.ByUID().Hash(pod), 16)
	r = invoke(t, "why", "pods/web-1", "-n", "shop", at, server)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, fmt.Sprintf(`^shop/web-1 is owned by the member m2, not by m1 \(this replica\): it has owned slot %d of the group carts for at least 1h\S+\.`, slot), r.Lines()[0])
	us.holding = membership.Holding{Owner: "m2", To: "m1", Waiting: now.Add(-time.Minute)}
	r = invoke(t, "why", "pods/web-1", "-n", "shop", at, server)
	require.Regexp(t, `^shop/web-1 is being handed over from m2 to m1 \(this replica\) \(slot \d+ of the group carts\): it has waited 1m\S* for m2 to finish its work in progress\.\n`, r.Out)

	srv.SetAuthorizer(apiservertest.Deny("", "pods", "get"))
	r = invoke(t, "why", "pods/web-1", "-n", "shop", at, server)
	require.Equal(t, exit.CodeOK, r.Code)
	require.Contains(t, r.ErrOut, "this replica does not have shop/web-1, and its owner is unknown: ")
	require.Contains(t, r.ErrOut, "forbidden")
	require.Contains(t, r.Lines()[0], "shop/web-1 is no longer in any cache")
	r = invoke(t, "why", "pods/web-1", "-n", "shop", at, "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exit.CodeOK, r.Code)
	require.Contains(t, r.ErrOut, "its owner is unknown: kubeconfig")

	alone := httptest.NewServer(debug.New(debug.Options{}))
	defer alone.Close()
	r = invoke(t, "shards", "--attach="+alone.URL)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, "does not share work with other replicas")
}
