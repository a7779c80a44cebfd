// Package v1 contains the API types of dev.example.com/v1.
//
// +groupName=dev.example.com
// +kubebuilder:object:generate=true
package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types.
var GroupVersion = schema.GroupVersion{Group: "dev.example.com", Version: "v1"}

// Ready is the condition that reports whether the owner can work in the namespace.
const Ready = "Ready"

// Sandbox is a namespace for one person and for some hours. The namespace is called sandbox- followed by
// the name of the Sandbox.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Owner,type=string,JSONPath=.spec.owner
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name=Expires,type=string,JSONPath=.status.expires
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9-]{1,55}$')",message="the name of a sandbox is part of a namespace's: at most 55 of a-z, 0-9 and -"
type Sandbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SandboxSpec `json:"spec"`
	// +optional
	Status SandboxStatus `json:"status,omitzero"`
}

// SandboxSpec is the desired state.
type SandboxSpec struct {
	// Owner is the user who may work in the namespace, as the API server names them.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a sandbox keeps its owner"
	Owner string `json:"owner"`

	// Hours is how long the sandbox lives.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=720
	// +kubebuilder:default=24
	Hours int32 `json:"hours,omitempty"`

	// Quota is how much the sandbox may use, as in a ResourceQuota.
	//
	// +optional
	Quota corev1.ResourceList `json:"quota,omitempty"`
}

// SandboxStatus is the observed state.
type SandboxStatus struct {
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Expires metav1.Time `json:"expires,omitzero"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SandboxList is a list of Sandboxes.
//
// +kubebuilder:object:root=true
type SandboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Sandbox `json:"items"`
}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Sandbox{}, &SandboxList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
