package scenario

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/internal/objects"
)

// Widget is the Go type for the custom resource created by objects.Widget, as a controller author would write
// it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

// WidgetSpec is the desired state.
type WidgetSpec struct {
	ClassName   string            `json:"className"`
	Engine      WidgetEngine      `json:"engine"`
	Replicas    int64             `json:"replicas"`
	Parameters  map[string]int64  `json:"parameters,omitempty"`
	Storage     []WidgetStorage   `json:"storage,omitempty"`
	Backup      WidgetBackup      `json:"backup"`
	Maintenance WidgetMaintenance `json:"maintenance"`
	Users       []WidgetUser      `json:"users,omitempty"`
}

// The components of a WidgetSpec.
type (
	// WidgetEngine is the software to run.
	WidgetEngine struct {
		Name  string `json:"name"`
		Image string `json:"image"`
		Port  int64  `json:"port"`
	}
	// WidgetStorage is a volume.
	WidgetStorage struct {
		Name      string `json:"name"`
		Class     string `json:"class"`
		Size      string `json:"size"`
		Encrypted bool   `json:"encrypted"`
	}
	// WidgetBackup is the schedule and target of backups.
	WidgetBackup struct {
		Schedule  string `json:"schedule"`
		Retention string `json:"retention"`
		Bucket    string `json:"bucket"`
	}
	// WidgetMaintenance is the maintenance window.
	WidgetMaintenance struct {
		Window   string `json:"window"`
		Duration string `json:"duration"`
		Enabled  bool   `json:"enabled"`
	}
	// WidgetUser is a user with access.
	WidgetUser struct {
		Name      string          `json:"name"`
		SecretRef WidgetSecretRef `json:"secretRef"`
	}
	// WidgetSecretRef refers to a password.
	WidgetSecretRef struct {
		Name string `json:"name"`
		Key  string `json:"key"`
	}
)

// WidgetStatus is the observed state.
type WidgetStatus struct {
	Phase              string             `json:"phase,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Endpoint           string             `json:"endpoint,omitempty"`
	Heartbeat          metav1.Time        `json:"heartbeat,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopy returns a deep copy.
func (w *Widget) DeepCopy() *Widget {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Parameters = maps.Clone(w.Spec.Parameters)
	c.Spec.Storage = slices.Clone(w.Spec.Storage)
	c.Spec.Users = slices.Clone(w.Spec.Users)
	c.Status.Heartbeat = *w.Status.Heartbeat.DeepCopy()
	c.Status.Conditions = slices.Clone(w.Status.Conditions)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object { return w.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopy())
	}
	return &c
}

// AddWidgets registers the types in a scheme.
func AddWidgets(scheme *runtime.Scheme) {
	version := objects.WidgetVersion()
	scheme.AddKnownTypeWithName(version.WithKind(objects.WidgetKind), &Widget{})
	scheme.AddKnownTypeWithName(version.WithKind(objects.WidgetKind+"List"), &WidgetList{})
	metav1.AddToGroupVersion(scheme, version)
}
