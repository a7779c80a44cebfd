package share

// wordTable contains strings that the API and its components put into nearly every object. Objects refer to
// these strings, which saves memory and pool lookups.
var wordTable = newWordLookup(
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

// wordBits is the number of hash bits that select a slot.
const wordBits = 10

// wordSlots is the number of slots, for about a hundred words.
const wordSlots = 1 << wordBits

// wordLookup finds words using a collision-free hash, so one comparison is enough. An unused slot contains
// the empty word.
type wordLookup struct {
	list    []string
	slots   [wordSlots]uint8 // places in list
	factor  uint32           // of the hash
	longest int
}

// newWordLookup returns a wordLookup for fewer than 256 words. Any two words must differ in length or in
// their first, middle or last byte.
func newWordLookup(list ...string) *wordLookup {
	x := &wordLookup{list: append([]string{""}, list...), factor: 1}
	for _, w := range list {
		x.longest = max(x.longest, len(w))
	}
	for !x.fill() {
		x.factor += 2
	}
	return x
}

// fill fills the slots, and reports whether the hash has no collisions.
func (x *wordLookup) fill() bool {
	x.slots = [wordSlots]uint8{}
	for i, w := range x.list[1:] {
		slot := &x.slots[x.slot([]byte(w))]
		if *slot != 0 {
			return false
		}
		*slot = uint8(i + 1)
	}
	return true
}

// slot returns the slot of the word equal to raw, which must not be empty.
func (x *wordLookup) slot(raw []byte) uint32 {
	n := len(raw)
	h := uint32(raw[0]) | uint32(raw[n/2])<<8 | uint32(raw[n-1])<<16 | uint32(n)<<24
	return h * (x.factor * 0x9e3779b1) >> (32 - wordBits)
}

// Word returns the word equal to raw, or "".
func Word(raw []byte) string {
	if len(raw) == 0 || len(raw) > wordTable.longest {
		return ""
	}
	if w := wordTable.list[wordTable.slots[wordTable.slot(raw)]]; w == string(raw) {
		return w
	}
	return ""
}
