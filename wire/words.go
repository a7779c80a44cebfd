package wire

// words are what the API and its components put into object after object. An
// object that has one of them points at the word here, which costs neither
// memory nor a look into a pool. The list holds what is in nearly every object;
// anything else is found by a pool.
var words = spell(
	// Metadata.
	"v1", "apps/v1", "batch/v1", "status", "scale", "Update", "Apply", "FieldsV1",
	"ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "Node", "default", "kube-system",
	"kubelet", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "kubectl", "helm",

	// Specifications.
	"Always", "Never", "OnFailure", "IfNotPresent", "File", "FallbackToLogsOnError", "ClusterFirst",
	"default-scheduler", "/dev/termination-log", "TCP", "UDP", "HTTP", "HTTPS", "http", "https",
	"Exists", "Equal", "NoSchedule", "NoExecute", "ClusterIP", "LoadBalancer", "NodePort", "None",
	"Cluster", "Local", "SingleStack", "IPv4", "IPv6", "RollingUpdate", "Recreate", "OrderedReady",
	"Opaque", "PreemptLowerPriority", "ReadWriteOnce", "Filesystem", "Delete", "Retain",

	// Status.
	"True", "False", "Unknown", "Pending", "Running", "Succeeded", "Failed", "Completed", "Error",
	"Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers",
	"Burstable", "BestEffort", "Guaranteed", "Bound", "Available", "Progressing", "Active", "Complete",
)

// longestWord is the length of the longest of them.
const longestWord = len("PodReadyToStartContainers")

func spell(list ...string) map[string]string {
	m := make(map[string]string, len(list))
	for _, w := range list {
		m[w] = w
	}
	return m
}

// word returns the word that raw spells, or "".
func word(raw []byte) string {
	if len(raw) > longestWord {
		return ""
	}
	return words[string(raw)]
}
