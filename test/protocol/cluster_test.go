package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClusterScoped(t *testing.T) {
	forEach(t, func(s *session) {
		node := "/api/v1/nodes/" + s.ns
		made := s.must("POST", "/api/v1/nodes", `{"metadata":{"name":"`+s.ns+`","labels":{"test":"`+s.ns+`"}},"status":{"nodeInfo":{"kubeletVersion":"v1"}}}`)
		require.Empty(s.t, made.Metadata.Namespace)
		require.Contains(s.t, made.Status, "nodeInfo", "nodes bring their status")
		w := s.watch("/api/v1/nodes?watch=1&labelSelector=test%3D" + s.ns + "&resourceVersion=" + made.Metadata.ResourceVersion)
		s.merge(node, `{"spec":{"unschedulable":true}}`)
		require.Equal(s.t, s.ns, s.list("/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue&labelSelector=test%3D"+s.ns).names())
		require.Equal(s.t, s.ns, s.list("/api/v1/nodes?fieldSelector=metadata.name%3D"+s.ns).names())
		s.merge(node+"/status", `{"status":{"phase":"Running"},"spec":{"unschedulable":false}}`)
		require.Equal(s.t, true, s.must("GET", node, "").Spec["unschedulable"])
		require.Equal(s.t, "Status", s.must("DELETE", node, "").Kind)
		require.Equal(s.t, "MODIFIED "+s.ns+", MODIFIED "+s.ns+", DELETED "+s.ns, w.told(3))

		ns := s.must("GET", "/api/v1/namespaces/"+s.ns, "")
		require.Equal(s.t, s.ns, ns.Metadata.Labels["kubernetes.io/metadata.name"])
		require.Equal(s.t, map[string]any{"phase": "Active"}, ns.Status)
	})
}

func TestListAcrossNamespaces(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods(s.ns) // a name that no other namespace has
		w := s.watch("/api/v1/pods?watch=1&labelSelector=app%3D" + s.ns)
		l := s.list("/api/v1/pods?fieldSelector=metadata.namespace%3D" + s.ns)
		require.Equal(s.t, s.ns, l.names())
		require.Equal(s.t, s.ns, l.Items[0].Metadata.Namespace)
		e := w.next()
		require.Equal(s.t, "ADDED", e.Type)
		require.Equal(s.t, s.ns, e.Object.Metadata.Namespace)
	})
}

func TestFinalizers(t *testing.T) {
	forEach(t, func(s *session) {
		made := s.must("POST", "configmaps", `{"metadata":{"name":"c","finalizers":["example.com/f"]}}`)
		held := s.must("DELETE", "configmaps/c", "")
		require.Equal(s.t, "ConfigMap", held.Kind, "it is still there")
		require.NotNil(s.t, held.Metadata.DeletionTimestamp)
		require.NotEqual(s.t, made.Metadata.ResourceVersion, held.Metadata.ResourceVersion)
		code, raw := s.do("PATCH", "configmaps/c", `{"metadata":{"finalizers":["example.com/f","example.com/g"]}}`, "Content-Type", mergePatch)
		require.Equal(s.t, 422, code, "none is added to what is being deleted: %s", raw)
		require.Equal(s.t, `ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.com/g"}`,
			parse[item](s.t, raw).Message)
		kept := s.must("PUT", "configmaps/c", `{"metadata":{"name":"c","finalizers":["example.com/f"]},"data":{"k":"v"}}`)
		require.Equal(s.t, "v", kept.Data["k"])
		require.NotNil(s.t, kept.Metadata.DeletionTimestamp)
		s.merge("configmaps/c", `{"metadata":{"finalizers":null}}`)
		code, _ = s.do("GET", "configmaps/c", "")
		require.Equal(s.t, 404, code)
	})
}
