package envtest

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// optionOf maps flags that would interfere with this package to the options to use instead.
var optionOf = map[string]string{
	"secure-port":  "Port",
	"etcd-servers": "Etcd",
}

// check rejects contradictory options, so that no time is wasted on a build.
func (o Options) check() error {
	if o.OnlyEtcd && (len(o.Files) > 0 || len(o.Objects) > 0 || o.Audit != "" || o.Like != nil) {
		return errors.New("etcd alone has no objects, users or audit log: leave out Files, Objects, Audit and Like, or OnlyEtcd")
	}
	if o.OnlyEtcd && (len(o.Flags) > 0 || len(o.Gates) > 0) {
		return errors.New("etcd alone accepts no kube-apiserver flags: leave out Flags and Gates, or OnlyEtcd")
	}
	if o.Etcd != "" && (o.OnlyEtcd || o.Quota != 0) {
		return errors.New("the store at Options.Etcd belongs to another process: leave out OnlyEtcd and Quota, or Etcd")
	}
	if o.Port < 0 || o.Port > 1<<16-1 {
		return fmt.Errorf("Options.Port must be 1 to 65535, or 0 for a free port, got %d", o.Port)
	}
	if o.Quota < 0 {
		return fmt.Errorf("Options.Quota must be positive, or 0 for etcd's default, got %d", o.Quota)
	}
	switch o.Audit {
	case "", AuditMetadata, AuditRequest, AuditRequestResponse:
	default:
		return fmt.Errorf("Options.Audit must be %s, %s or %s, got %q", AuditMetadata, AuditRequest, AuditRequestResponse, o.Audit)
	}
	if o.Etcd != "" {
		for at := range strings.SplitSeq(o.Etcd, ",") {
			u, err := url.Parse(at)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("Options.Etcd contains %q: specify a URL such as http://127.0.0.1:2379", at)
			}
		}
	}
	return o.checkFlags()
}

func (o Options) checkFlags() error {
	for _, flag := range o.Flags {
		name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		if name = strings.ReplaceAll(name, "_", "-"); !strings.HasPrefix(flag, "-") {
			continue // the previous flag's value
		}
		if option := optionOf[name]; option != "" {
			return fmt.Errorf("Options.Flags contains %s: use Options.%s", flag, option)
		}
		if o.Audit != "" && (name == "audit-log-path" || name == "audit-policy-file") {
			return fmt.Errorf("Options.Flags contains %s: leave out Options.Audit to configure your own audit log", flag)
		}
	}
	return nil
}
