package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/millrace-dev/millrace/controllermanager"
	"github.com/millrace-dev/millrace/examples/controller-manager/controllers"
	"github.com/millrace-dev/millrace/examples/controller-manager/owned"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// A sharer is this test program in a separate process: the controllers of
// examples/controller-manager, which share their work.
const (
	sharerName  = "MILLRACE_SHARER_NAME" // if set, the program is a sharer
	sharerGroup = "default"              // namespace of its Lease
	sharerSlots = 64
)

// share runs a sharer. The User-Agent of each write contains the slot and its term. If a Deployment
// is reported as deleted, the sharer writes that to stderr: the test deletes none.
func share(name string) {
	err := func() error {
		cfg, err := config.Load()
		if err != nil {
			return err
		}
		cfg.Namespace = sharerGroup
		var group *membership.Group
		cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return signer{name, &group, next} }
		m, err := manager.New(cfg, manager.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Sharding: &membership.Options{
			Name: "sharers", Identity: name, Slots: sharerSlots, Patience: time.Minute,
			LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
		}})
		if err != nil {
			return err
		}
		part := m.Shard(owned.Key())
		group = part.Share.(*membership.Group)
		registry, err := controllers.Registry()
		if err != nil {
			return err
		}
		cm, err := controllermanager.New(registry, m.Factory(), controllermanager.Options{NewClient: controllermanager.Clients(cfg, m.Scheme()), Shard: m.Shard})
		if err != nil {
			return err
		}
		if err := m.Add(cm); err != nil {
			return err
		}
		deployments := factory.InformerWith(m.Factory(), factory.For[*appsv1.Deployment]{Scope: factory.Scope{Shard: part}})
		deployments.AddHandler(sharedinformer.HandlerFunc[*appsv1.Deployment](func(_ context.Context, e sharedinformer.Event[*appsv1.Deployment]) error {
			if e.Type == sharedinformer.Delete && !e.Moved {
				fmt.Fprintln(os.Stderr, "S03: told as deleted:", object.FormatKey(object.KeyOf(e.Object)))
			}
			return nil
		}))
		return m.Run(manager.SignalContext())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// signer signs the writes of a sharer.
type signer struct {
	name  string
	group **membership.Group // set before the first request
	next  http.RoundTripper
}

func (s signer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, ok := shard.TokenOf(req.Context())
	signed := req.Clone(req.Context())
	signed.Header.Set("User-Agent", "sharer/"+s.name)
	if ok {
		sent := time.Now().UnixNano()
		now, held := (*s.group).Term(token.Slot)
		late := (!held || now != token) && !(*s.group).Status().Leaving.Has(token.Slot)
		signed.Header.Set("User-Agent", fmt.Sprintf("sharer/%s slot=%d epoch=%d sent=%d late=%t", s.name, token.Slot, token.Epoch, sent, late))
	}
	return s.next.RoundTrip(signed)
}

// signature is the signature of a write.
type signature struct {
	by    string
	token shard.Token
	sent  int64 // Unix nanoseconds, before the request was sent
	late  bool  // at that moment the signer knew that the term was over, but the worker did not
}

var signatures = regexp.MustCompile(`^sharer/(\S+) slot=(\d+) epoch=(\d+) sent=(\d+) late=(true|false)$`)

// readSignature parses a User-Agent, and returns false if it is not signed.
func readSignature(agent string) (s signature, signed bool) {
	m := signatures.FindStringSubmatch(agent)
	if m == nil {
		return s, false
	}
	s.by, s.late = m[1], m[5] == "true"
	slot, err1 := strconv.Atoi(m[2])
	epoch, err2 := strconv.ParseUint(m[3], 10, 64)
	sent, err3 := strconv.ParseInt(m[4], 10, 64)
	s.token, s.sent = shard.Token{Slot: slot, Epoch: epoch}, sent
	return s, err1 == nil && err2 == nil && err3 == nil
}
