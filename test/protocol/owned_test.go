package protocol

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Objects that controllers create for others behave as on the real server: whether an update
// creates them, what increments the generation, whether an update may omit the version, and what a
// deletion returns.
func TestLifeOfOwnedObjects(t *testing.T) {
	const (
		pod      = `{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Always","containers":[{"name":"c","image":"i"}]}}`
		once     = `{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}`
		selector = `"selector":{"matchLabels":{"a":"b"}}`
		claim    = `"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}`
		edit     = `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"}`
	)
	for _, kind := range []struct{ path, group, before, after, want string }{
		{"serviceaccounts", "v1 ServiceAccount", `"automountServiceAccountToken":true`, `"automountServiceAccountToken":false`, "404, 201, 0, 200, 0, 200 ServiceAccount"},
		{"persistentvolumeclaims", "v1 PersistentVolumeClaim", `"spec":{` + claim + `}`, `"spec":{` + claim + `},"metadata":{"name":"x","labels":{"l":"m"}}`, "404, 201, 0, 200, 0, 200 PersistentVolumeClaim"},
		{"resourcequotas", "v1 ResourceQuota", `"spec":{"hard":{"pods":"1"}}`, `"spec":{"hard":{"pods":"2"}}`, "404, 201, 0, 200, 0, 200 ResourceQuota"},
		{"limitranges", "v1 LimitRange", `"spec":{"limits":[{"type":"Pod","max":{"cpu":"1"}}]}`, `"spec":{"limits":[{"type":"Pod","max":{"cpu":"2"}}]}`, "201, 201, 0, 200, 0, 200 Status"},
		{"apps/v1/statefulsets", "apps/v1 StatefulSet", `"spec":{"replicas":1,"serviceName":"s",` + selector + `,"template":` + pod + `}`, `"spec":{"replicas":2,"serviceName":"s",` + selector + `,"template":` + pod + `}`, "404, 201, 1, 200, 2, 200 Status"},
		{"apps/v1/daemonsets", "apps/v1 DaemonSet", `"spec":{` + selector + `,"template":` + pod + `}`, `"spec":{"minReadySeconds":1,` + selector + `,"template":` + pod + `}`, "404, 201, 1, 200, 2, 200 Status"},
		{"batch/v1/jobs", "batch/v1 Job", `"spec":{"template":` + once + `}`, "", "404, 201, 1, 0, 0, 200 Status"},
		{"batch/v1/cronjobs", "batch/v1 CronJob", `"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":` + once + `}}}`, `"spec":{"schedule":"@hourly","jobTemplate":{"spec":{"template":` + once + `}}}`, "404, 201, 1, 200, 2, 200 Status"},
		{"networking.k8s.io/v1/ingresses", "networking.k8s.io/v1 Ingress", `"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":1}}}}`, `"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":2}}}}`, "404, 201, 1, 200, 2, 200 Status"},
		{"networking.k8s.io/v1/networkpolicies", "networking.k8s.io/v1 NetworkPolicy", `"spec":{"podSelector":{},"policyTypes":["Ingress"]}`, `"spec":{"podSelector":{},"policyTypes":["Egress"]}`, "404, 201, 1, 200, 2, 200 Status"},
		{"policy/v1/poddisruptionbudgets", "policy/v1 PodDisruptionBudget", `"spec":{"minAvailable":1,` + selector + `}`, `"spec":{"minAvailable":2,` + selector + `}`, "404, 201, 1, 422, 0, 200 Status"},
		{"rbac.authorization.k8s.io/v1/roles", "rbac.authorization.k8s.io/v1 Role", `"rules":[]`, `"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]`, "201, 201, 0, 200, 0, 200 Status"},
		{"rbac.authorization.k8s.io/v1/rolebindings", "rbac.authorization.k8s.io/v1 RoleBinding", edit, edit + `,"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"u"}]`, "201, 201, 0, 200, 0, 200 Status"},
	} {
		t.Run(kind.path, func(t *testing.T) {
			forEach(t, func(s *session) {
				var version, name string
				_, err := fmt.Sscan(kind.group, &version, &name)
				require.NoError(s.t, err)
				body := func(spec string) string {
					return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"},%s}`, version, name, spec)
				}
				missing, _ := s.do("PUT", kind.path+"/x?dryRun=All", body(kind.before))
				made, raw := s.do("POST", kind.path, body(kind.before))
				first := parse[item](s.t, raw).Metadata.Generation
				updated, second := 0, int64(0)
				if kind.after != "" {
					updated, raw = s.do("PUT", kind.path+"/x", body(kind.after))
					second = parse[item](s.t, raw).Metadata.Generation
				}
				gone, raw := s.do("DELETE", kind.path+"/x?propagationPolicy=Background", "")
				got := fmt.Sprintf("%d, %d, %d, %d, %d, %d %s", missing, made, first, updated, second, gone, parse[item](s.t, raw).Kind)
				require.Equal(s.t, kind.want, got, "an update of none, a creation, its generation, an update, its generation, a deletion")
			})
		})
	}
}
