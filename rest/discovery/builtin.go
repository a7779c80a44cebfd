package discovery

import (
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/object"
)

// Builtin returns the location of a built-in kind in a stable version, which is the
// same on every API server. It avoids discovery, which may be slow or rejected, or may reach something
// other than an API server. It sets only Kind, Resource, Namespaced and Singular. It returns false for all
// other kinds.
//
// An older server may lack a newer kind and respond with 404.
func Builtin(kind object.GVK) (Mapping, bool) {
	namespaced, cluster := builtinKinds(kind.GroupVersion().String())
	m := Mapping{Kind: kind, Singular: strings.ToLower(kind.Kind)}
	switch {
	case slices.Contains(strings.Fields(namespaced), kind.Kind):
		m.Namespaced = true
	case !slices.Contains(strings.Fields(cluster), kind.Kind):
		return Mapping{}, false
	}
	m.Resource = kind.GroupVersion().WithResource(plural(m.Singular))
	return m, true
}

// plural returns the plural of a built-in resource's singular name.
func plural(singular string) string {
	switch {
	case singular == "endpoints":
		return singular
	case strings.HasSuffix(singular, "s"):
		return singular + "es"
	case strings.HasSuffix(singular, "y"):
		return strings.TrimSuffix(singular, "y") + "ies"
	}
	return singular + "s"
}

// builtinKinds returns the namespaced and the cluster-scoped kinds in a stable group version that are
// resources. A test compares them with the markers in k8s.io/api's source.
func builtinKinds(groupVersion string) (namespaced, cluster string) {
	switch groupVersion {
	case "v1":
		return "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount", "ComponentStatus Namespace Node PersistentVolume"
	case "admissionregistration.k8s.io/v1":
		return "", "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration"
	case "apps/v1":
		return "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", ""
	case "authentication.k8s.io/v1":
		return "", "SelfSubjectReview TokenReview"
	case "authorization.k8s.io/v1":
		return "LocalSubjectAccessReview", "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview"
	case "autoscaling/v1":
		return "HorizontalPodAutoscaler", ""
	case "autoscaling/v2":
		return "HorizontalPodAutoscaler", ""
	case "batch/v1":
		return "CronJob Job", ""
	case "certificates.k8s.io/v1":
		return "PodCertificateRequest", "CertificateSigningRequest ClusterTrustBundle"
	case "coordination.k8s.io/v1":
		return "Lease", ""
	case "discovery.k8s.io/v1":
		return "EndpointSlice", ""
	case "events.k8s.io/v1":
		return "Event", ""
	case "flowcontrol.apiserver.k8s.io/v1":
		return "", "FlowSchema PriorityLevelConfiguration"
	case "networking.k8s.io/v1":
		return "Ingress NetworkPolicy", "IPAddress IngressClass ServiceCIDR"
	case "node.k8s.io/v1":
		return "", "RuntimeClass"
	case "policy/v1":
		return "PodDisruptionBudget", ""
	case "rbac.authorization.k8s.io/v1":
		return "Role RoleBinding", "ClusterRole ClusterRoleBinding"
	case "resource.k8s.io/v1":
		return "ResourceClaim ResourceClaimTemplate", "DeviceClass DeviceTaintRule ResourceSlice"
	case "scheduling.k8s.io/v1":
		return "", "PriorityClass"
	case "storage.k8s.io/v1":
		return "CSIStorageCapacity", "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass"
	case "storagemigration.k8s.io/v1":
		return "", "StorageVersionMigration"
	}
	return "", ""
}
