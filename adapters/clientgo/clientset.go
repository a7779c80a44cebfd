package clientgo

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1alpha1 "k8s.io/api/rbac/v1alpha1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// clientOf returns the resource of a Go type and what lists and watches it in a
// clientset, for every type that client-go's factory has an informer for: the
// generated ones do not tell what they list with. The namespace is within which
// it does, empty for types that are in none. It returns nil for other types. A
// test walks client-go's factory to see that none is missing.
func clientOf(client kubernetes.Interface, namespace string, example runtime.Object) (resource, within string, lw *cache.ListWatch) {
	switch example.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return "mutatingadmissionpolicies", "", listWatch(client.AdmissionregistrationV1().MutatingAdmissionPolicies())
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return "mutatingadmissionpolicybindings", "", listWatch(client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings())
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return "mutatingwebhookconfigurations", "", listWatch(client.AdmissionregistrationV1().MutatingWebhookConfigurations())
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return "validatingadmissionpolicies", "", listWatch(client.AdmissionregistrationV1().ValidatingAdmissionPolicies())
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return "validatingadmissionpolicybindings", "", listWatch(client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings())
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return "validatingwebhookconfigurations", "", listWatch(client.AdmissionregistrationV1().ValidatingWebhookConfigurations())
	case *admissionregistrationv1alpha1.MutatingAdmissionPolicy:
		return "mutatingadmissionpolicies", "", listWatch(client.AdmissionregistrationV1alpha1().MutatingAdmissionPolicies())
	case *admissionregistrationv1alpha1.MutatingAdmissionPolicyBinding:
		return "mutatingadmissionpolicybindings", "", listWatch(client.AdmissionregistrationV1alpha1().MutatingAdmissionPolicyBindings())
	case *admissionregistrationv1alpha1.ValidatingAdmissionPolicy:
		return "validatingadmissionpolicies", "", listWatch(client.AdmissionregistrationV1alpha1().ValidatingAdmissionPolicies())
	case *admissionregistrationv1alpha1.ValidatingAdmissionPolicyBinding:
		return "validatingadmissionpolicybindings", "", listWatch(client.AdmissionregistrationV1alpha1().ValidatingAdmissionPolicyBindings())
	case *admissionregistrationv1beta1.MutatingAdmissionPolicy:
		return "mutatingadmissionpolicies", "", listWatch(client.AdmissionregistrationV1beta1().MutatingAdmissionPolicies())
	case *admissionregistrationv1beta1.MutatingAdmissionPolicyBinding:
		return "mutatingadmissionpolicybindings", "", listWatch(client.AdmissionregistrationV1beta1().MutatingAdmissionPolicyBindings())
	case *admissionregistrationv1beta1.MutatingWebhookConfiguration:
		return "mutatingwebhookconfigurations", "", listWatch(client.AdmissionregistrationV1beta1().MutatingWebhookConfigurations())
	case *admissionregistrationv1beta1.ValidatingAdmissionPolicy:
		return "validatingadmissionpolicies", "", listWatch(client.AdmissionregistrationV1beta1().ValidatingAdmissionPolicies())
	case *admissionregistrationv1beta1.ValidatingAdmissionPolicyBinding:
		return "validatingadmissionpolicybindings", "", listWatch(client.AdmissionregistrationV1beta1().ValidatingAdmissionPolicyBindings())
	case *admissionregistrationv1beta1.ValidatingWebhookConfiguration:
		return "validatingwebhookconfigurations", "", listWatch(client.AdmissionregistrationV1beta1().ValidatingWebhookConfigurations())
	case *apiserverinternalv1alpha1.StorageVersion:
		return "storageversions", "", listWatch(client.InternalV1alpha1().StorageVersions())
	case *appsv1.ControllerRevision:
		return "controllerrevisions", namespace, listWatch(client.AppsV1().ControllerRevisions(namespace))
	case *appsv1.DaemonSet:
		return "daemonsets", namespace, listWatch(client.AppsV1().DaemonSets(namespace))
	case *appsv1.Deployment:
		return "deployments", namespace, listWatch(client.AppsV1().Deployments(namespace))
	case *appsv1.ReplicaSet:
		return "replicasets", namespace, listWatch(client.AppsV1().ReplicaSets(namespace))
	case *appsv1.StatefulSet:
		return "statefulsets", namespace, listWatch(client.AppsV1().StatefulSets(namespace))
	case *appsv1beta1.ControllerRevision:
		return "controllerrevisions", namespace, listWatch(client.AppsV1beta1().ControllerRevisions(namespace))
	case *appsv1beta1.Deployment:
		return "deployments", namespace, listWatch(client.AppsV1beta1().Deployments(namespace))
	case *appsv1beta1.StatefulSet:
		return "statefulsets", namespace, listWatch(client.AppsV1beta1().StatefulSets(namespace))
	case *appsv1beta2.ControllerRevision:
		return "controllerrevisions", namespace, listWatch(client.AppsV1beta2().ControllerRevisions(namespace))
	case *appsv1beta2.DaemonSet:
		return "daemonsets", namespace, listWatch(client.AppsV1beta2().DaemonSets(namespace))
	case *appsv1beta2.Deployment:
		return "deployments", namespace, listWatch(client.AppsV1beta2().Deployments(namespace))
	case *appsv1beta2.ReplicaSet:
		return "replicasets", namespace, listWatch(client.AppsV1beta2().ReplicaSets(namespace))
	case *appsv1beta2.StatefulSet:
		return "statefulsets", namespace, listWatch(client.AppsV1beta2().StatefulSets(namespace))
	case *autoscalingv1.HorizontalPodAutoscaler:
		return "horizontalpodautoscalers", namespace, listWatch(client.AutoscalingV1().HorizontalPodAutoscalers(namespace))
	case *autoscalingv2.HorizontalPodAutoscaler:
		return "horizontalpodautoscalers", namespace, listWatch(client.AutoscalingV2().HorizontalPodAutoscalers(namespace))
	case *batchv1.CronJob:
		return "cronjobs", namespace, listWatch(client.BatchV1().CronJobs(namespace))
	case *batchv1.Job:
		return "jobs", namespace, listWatch(client.BatchV1().Jobs(namespace))
	case *batchv1beta1.CronJob:
		return "cronjobs", namespace, listWatch(client.BatchV1beta1().CronJobs(namespace))
	case *certificatesv1.CertificateSigningRequest:
		return "certificatesigningrequests", "", listWatch(client.CertificatesV1().CertificateSigningRequests())
	case *certificatesv1.ClusterTrustBundle:
		return "clustertrustbundles", "", listWatch(client.CertificatesV1().ClusterTrustBundles())
	case *certificatesv1.PodCertificateRequest:
		return "podcertificaterequests", namespace, listWatch(client.CertificatesV1().PodCertificateRequests(namespace))
	case *certificatesv1alpha1.ClusterTrustBundle:
		return "clustertrustbundles", "", listWatch(client.CertificatesV1alpha1().ClusterTrustBundles())
	case *certificatesv1beta1.CertificateSigningRequest:
		return "certificatesigningrequests", "", listWatch(client.CertificatesV1beta1().CertificateSigningRequests())
	case *certificatesv1beta1.ClusterTrustBundle:
		return "clustertrustbundles", "", listWatch(client.CertificatesV1beta1().ClusterTrustBundles())
	case *certificatesv1beta1.PodCertificateRequest:
		return "podcertificaterequests", namespace, listWatch(client.CertificatesV1beta1().PodCertificateRequests(namespace))
	case *coordinationv1.Lease:
		return "leases", namespace, listWatch(client.CoordinationV1().Leases(namespace))
	case *coordinationv1alpha2.LeaseCandidate:
		return "leasecandidates", namespace, listWatch(client.CoordinationV1alpha2().LeaseCandidates(namespace))
	case *coordinationv1beta1.Lease:
		return "leases", namespace, listWatch(client.CoordinationV1beta1().Leases(namespace))
	case *coordinationv1beta1.LeaseCandidate:
		return "leasecandidates", namespace, listWatch(client.CoordinationV1beta1().LeaseCandidates(namespace))
	case *corev1.ComponentStatus:
		return "componentstatuses", "", listWatch(client.CoreV1().ComponentStatuses())
	case *corev1.ConfigMap:
		return "configmaps", namespace, listWatch(client.CoreV1().ConfigMaps(namespace))
	//lint:ignore SA1019 client-go has an informer of it, and so has this factory
	case *corev1.Endpoints:
		return "endpoints", namespace, listWatch(client.CoreV1().Endpoints(namespace))
	case *corev1.Event:
		return "events", namespace, listWatch(client.CoreV1().Events(namespace))
	case *corev1.LimitRange:
		return "limitranges", namespace, listWatch(client.CoreV1().LimitRanges(namespace))
	case *corev1.Namespace:
		return "namespaces", "", listWatch(client.CoreV1().Namespaces())
	case *corev1.Node:
		return "nodes", "", listWatch(client.CoreV1().Nodes())
	case *corev1.PersistentVolume:
		return "persistentvolumes", "", listWatch(client.CoreV1().PersistentVolumes())
	case *corev1.PersistentVolumeClaim:
		return "persistentvolumeclaims", namespace, listWatch(client.CoreV1().PersistentVolumeClaims(namespace))
	case *corev1.Pod:
		return "pods", namespace, listWatch(client.CoreV1().Pods(namespace))
	case *corev1.PodTemplate:
		return "podtemplates", namespace, listWatch(client.CoreV1().PodTemplates(namespace))
	case *corev1.ReplicationController:
		return "replicationcontrollers", namespace, listWatch(client.CoreV1().ReplicationControllers(namespace))
	case *corev1.ResourceQuota:
		return "resourcequotas", namespace, listWatch(client.CoreV1().ResourceQuotas(namespace))
	case *corev1.Secret:
		return "secrets", namespace, listWatch(client.CoreV1().Secrets(namespace))
	case *corev1.Service:
		return "services", namespace, listWatch(client.CoreV1().Services(namespace))
	case *corev1.ServiceAccount:
		return "serviceaccounts", namespace, listWatch(client.CoreV1().ServiceAccounts(namespace))
	case *discoveryv1.EndpointSlice:
		return "endpointslices", namespace, listWatch(client.DiscoveryV1().EndpointSlices(namespace))
	case *discoveryv1beta1.EndpointSlice:
		return "endpointslices", namespace, listWatch(client.DiscoveryV1beta1().EndpointSlices(namespace))
	case *eventsv1.Event:
		return "events", namespace, listWatch(client.EventsV1().Events(namespace))
	case *eventsv1beta1.Event:
		return "events", namespace, listWatch(client.EventsV1beta1().Events(namespace))
	case *extensionsv1beta1.DaemonSet:
		return "daemonsets", namespace, listWatch(client.ExtensionsV1beta1().DaemonSets(namespace))
	case *extensionsv1beta1.Deployment:
		return "deployments", namespace, listWatch(client.ExtensionsV1beta1().Deployments(namespace))
	case *extensionsv1beta1.Ingress:
		return "ingresses", namespace, listWatch(client.ExtensionsV1beta1().Ingresses(namespace))
	case *extensionsv1beta1.NetworkPolicy:
		return "networkpolicies", namespace, listWatch(client.ExtensionsV1beta1().NetworkPolicies(namespace))
	case *extensionsv1beta1.ReplicaSet:
		return "replicasets", namespace, listWatch(client.ExtensionsV1beta1().ReplicaSets(namespace))
	case *flowcontrolv1.FlowSchema:
		return "flowschemas", "", listWatch(client.FlowcontrolV1().FlowSchemas())
	case *flowcontrolv1.PriorityLevelConfiguration:
		return "prioritylevelconfigurations", "", listWatch(client.FlowcontrolV1().PriorityLevelConfigurations())
	case *flowcontrolv1beta1.FlowSchema:
		return "flowschemas", "", listWatch(client.FlowcontrolV1beta1().FlowSchemas())
	case *flowcontrolv1beta1.PriorityLevelConfiguration:
		return "prioritylevelconfigurations", "", listWatch(client.FlowcontrolV1beta1().PriorityLevelConfigurations())
	case *flowcontrolv1beta2.FlowSchema:
		return "flowschemas", "", listWatch(client.FlowcontrolV1beta2().FlowSchemas())
	case *flowcontrolv1beta2.PriorityLevelConfiguration:
		return "prioritylevelconfigurations", "", listWatch(client.FlowcontrolV1beta2().PriorityLevelConfigurations())
	case *flowcontrolv1beta3.FlowSchema:
		return "flowschemas", "", listWatch(client.FlowcontrolV1beta3().FlowSchemas())
	case *flowcontrolv1beta3.PriorityLevelConfiguration:
		return "prioritylevelconfigurations", "", listWatch(client.FlowcontrolV1beta3().PriorityLevelConfigurations())
	case *lifecyclev1alpha1.Eviction:
		return "evictions", namespace, listWatch(client.LifecycleV1alpha1().Evictions(namespace))
	case *lifecyclev1alpha1.EvictionRequest:
		return "evictionrequests", namespace, listWatch(client.LifecycleV1alpha1().EvictionRequests(namespace))
	case *networkingv1.Ingress:
		return "ingresses", namespace, listWatch(client.NetworkingV1().Ingresses(namespace))
	case *networkingv1.IngressClass:
		return "ingressclasses", "", listWatch(client.NetworkingV1().IngressClasses())
	case *networkingv1.IPAddress:
		return "ipaddresses", "", listWatch(client.NetworkingV1().IPAddresses())
	case *networkingv1.NetworkPolicy:
		return "networkpolicies", namespace, listWatch(client.NetworkingV1().NetworkPolicies(namespace))
	case *networkingv1.ServiceCIDR:
		return "servicecidrs", "", listWatch(client.NetworkingV1().ServiceCIDRs())
	case *networkingv1beta1.Ingress:
		return "ingresses", namespace, listWatch(client.NetworkingV1beta1().Ingresses(namespace))
	case *networkingv1beta1.IngressClass:
		return "ingressclasses", "", listWatch(client.NetworkingV1beta1().IngressClasses())
	case *networkingv1beta1.IPAddress:
		return "ipaddresses", "", listWatch(client.NetworkingV1beta1().IPAddresses())
	case *networkingv1beta1.ServiceCIDR:
		return "servicecidrs", "", listWatch(client.NetworkingV1beta1().ServiceCIDRs())
	case *nodev1.RuntimeClass:
		return "runtimeclasses", "", listWatch(client.NodeV1().RuntimeClasses())
	case *nodev1alpha1.RuntimeClass:
		return "runtimeclasses", "", listWatch(client.NodeV1alpha1().RuntimeClasses())
	case *nodev1beta1.RuntimeClass:
		return "runtimeclasses", "", listWatch(client.NodeV1beta1().RuntimeClasses())
	case *policyv1.PodDisruptionBudget:
		return "poddisruptionbudgets", namespace, listWatch(client.PolicyV1().PodDisruptionBudgets(namespace))
	case *policyv1beta1.PodDisruptionBudget:
		return "poddisruptionbudgets", namespace, listWatch(client.PolicyV1beta1().PodDisruptionBudgets(namespace))
	case *rbacv1.ClusterRole:
		return "clusterroles", "", listWatch(client.RbacV1().ClusterRoles())
	case *rbacv1.ClusterRoleBinding:
		return "clusterrolebindings", "", listWatch(client.RbacV1().ClusterRoleBindings())
	case *rbacv1.Role:
		return "roles", namespace, listWatch(client.RbacV1().Roles(namespace))
	case *rbacv1.RoleBinding:
		return "rolebindings", namespace, listWatch(client.RbacV1().RoleBindings(namespace))
	case *rbacv1alpha1.ClusterRole:
		return "clusterroles", "", listWatch(client.RbacV1alpha1().ClusterRoles())
	case *rbacv1alpha1.ClusterRoleBinding:
		return "clusterrolebindings", "", listWatch(client.RbacV1alpha1().ClusterRoleBindings())
	case *rbacv1alpha1.Role:
		return "roles", namespace, listWatch(client.RbacV1alpha1().Roles(namespace))
	case *rbacv1alpha1.RoleBinding:
		return "rolebindings", namespace, listWatch(client.RbacV1alpha1().RoleBindings(namespace))
	case *rbacv1beta1.ClusterRole:
		return "clusterroles", "", listWatch(client.RbacV1beta1().ClusterRoles())
	case *rbacv1beta1.ClusterRoleBinding:
		return "clusterrolebindings", "", listWatch(client.RbacV1beta1().ClusterRoleBindings())
	case *rbacv1beta1.Role:
		return "roles", namespace, listWatch(client.RbacV1beta1().Roles(namespace))
	case *rbacv1beta1.RoleBinding:
		return "rolebindings", namespace, listWatch(client.RbacV1beta1().RoleBindings(namespace))
	case *resourcev1.DeviceClass:
		return "deviceclasses", "", listWatch(client.ResourceV1().DeviceClasses())
	case *resourcev1.DeviceTaintRule:
		return "devicetaintrules", "", listWatch(client.ResourceV1().DeviceTaintRules())
	case *resourcev1.ResourceClaim:
		return "resourceclaims", namespace, listWatch(client.ResourceV1().ResourceClaims(namespace))
	case *resourcev1.ResourceClaimTemplate:
		return "resourceclaimtemplates", namespace, listWatch(client.ResourceV1().ResourceClaimTemplates(namespace))
	case *resourcev1.ResourceSlice:
		return "resourceslices", "", listWatch(client.ResourceV1().ResourceSlices())
	case *resourcev1alpha3.DeviceTaintRule:
		return "devicetaintrules", "", listWatch(client.ResourceV1alpha3().DeviceTaintRules())
	case *resourcev1alpha3.ResourcePoolStatusRequest:
		return "resourcepoolstatusrequests", "", listWatch(client.ResourceV1alpha3().ResourcePoolStatusRequests())
	case *resourcev1beta1.DeviceClass:
		return "deviceclasses", "", listWatch(client.ResourceV1beta1().DeviceClasses())
	case *resourcev1beta1.ResourceClaim:
		return "resourceclaims", namespace, listWatch(client.ResourceV1beta1().ResourceClaims(namespace))
	case *resourcev1beta1.ResourceClaimTemplate:
		return "resourceclaimtemplates", namespace, listWatch(client.ResourceV1beta1().ResourceClaimTemplates(namespace))
	case *resourcev1beta1.ResourceSlice:
		return "resourceslices", "", listWatch(client.ResourceV1beta1().ResourceSlices())
	case *resourcev1beta2.DeviceClass:
		return "deviceclasses", "", listWatch(client.ResourceV1beta2().DeviceClasses())
	case *resourcev1beta2.DeviceTaintRule:
		return "devicetaintrules", "", listWatch(client.ResourceV1beta2().DeviceTaintRules())
	case *resourcev1beta2.ResourceClaim:
		return "resourceclaims", namespace, listWatch(client.ResourceV1beta2().ResourceClaims(namespace))
	case *resourcev1beta2.ResourceClaimTemplate:
		return "resourceclaimtemplates", namespace, listWatch(client.ResourceV1beta2().ResourceClaimTemplates(namespace))
	case *resourcev1beta2.ResourceSlice:
		return "resourceslices", "", listWatch(client.ResourceV1beta2().ResourceSlices())
	case *schedulingv1.PriorityClass:
		return "priorityclasses", "", listWatch(client.SchedulingV1().PriorityClasses())
	case *schedulingv1alpha3.CompositePodGroup:
		return "compositepodgroups", namespace, listWatch(client.SchedulingV1alpha3().CompositePodGroups(namespace))
	case *schedulingv1alpha3.PodGroup:
		return "podgroups", namespace, listWatch(client.SchedulingV1alpha3().PodGroups(namespace))
	case *schedulingv1alpha3.Workload:
		return "workloads", namespace, listWatch(client.SchedulingV1alpha3().Workloads(namespace))
	case *schedulingv1beta1.PodGroup:
		return "podgroups", namespace, listWatch(client.SchedulingV1beta1().PodGroups(namespace))
	case *schedulingv1beta1.PriorityClass:
		return "priorityclasses", "", listWatch(client.SchedulingV1beta1().PriorityClasses())
	case *schedulingv1beta1.Workload:
		return "workloads", namespace, listWatch(client.SchedulingV1beta1().Workloads(namespace))
	case *storagev1.CSIDriver:
		return "csidrivers", "", listWatch(client.StorageV1().CSIDrivers())
	case *storagev1.CSINode:
		return "csinodes", "", listWatch(client.StorageV1().CSINodes())
	case *storagev1.CSIStorageCapacity:
		return "csistoragecapacities", namespace, listWatch(client.StorageV1().CSIStorageCapacities(namespace))
	case *storagev1.StorageClass:
		return "storageclasses", "", listWatch(client.StorageV1().StorageClasses())
	case *storagev1.VolumeAttachment:
		return "volumeattachments", "", listWatch(client.StorageV1().VolumeAttachments())
	case *storagev1.VolumeAttributesClass:
		return "volumeattributesclasses", "", listWatch(client.StorageV1().VolumeAttributesClasses())
	case *storagev1alpha1.CSIStorageCapacity:
		return "csistoragecapacities", namespace, listWatch(client.StorageV1alpha1().CSIStorageCapacities(namespace))
	case *storagev1alpha1.VolumeAttachment:
		return "volumeattachments", "", listWatch(client.StorageV1alpha1().VolumeAttachments())
	case *storagev1alpha1.VolumeAttributesClass:
		return "volumeattributesclasses", "", listWatch(client.StorageV1alpha1().VolumeAttributesClasses())
	case *storagev1beta1.CSIDriver:
		return "csidrivers", "", listWatch(client.StorageV1beta1().CSIDrivers())
	case *storagev1beta1.CSINode:
		return "csinodes", "", listWatch(client.StorageV1beta1().CSINodes())
	case *storagev1beta1.CSIStorageCapacity:
		return "csistoragecapacities", namespace, listWatch(client.StorageV1beta1().CSIStorageCapacities(namespace))
	case *storagev1beta1.StorageClass:
		return "storageclasses", "", listWatch(client.StorageV1beta1().StorageClasses())
	case *storagev1beta1.VolumeAttachment:
		return "volumeattachments", "", listWatch(client.StorageV1beta1().VolumeAttachments())
	case *storagev1beta1.VolumeAttributesClass:
		return "volumeattributesclasses", "", listWatch(client.StorageV1beta1().VolumeAttributesClasses())
	case *storagemigrationv1.StorageVersionMigration:
		return "storageversionmigrations", "", listWatch(client.StoragemigrationV1().StorageVersionMigrations())
	case *storagemigrationv1beta1.StorageVersionMigration:
		return "storageversionmigrations", "", listWatch(client.StoragemigrationV1beta1().StorageVersionMigrations())
	}
	return "", "", nil
}

// typedClient is the part of a client of one type that an informer needs.
type typedClient[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// listWatch makes a cache.ListWatch of the client of one type.
func listWatch[L runtime.Object](client typedClient[L]) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		},
		WatchFuncWithContext: client.Watch,
	}
}
