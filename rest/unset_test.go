package rest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace-dev/millrace/object"
)

// gadget is a custom resource with a field of each kind.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	*parts            `json:",inline"`

	Spec   gadgetPart            `json:"spec"`
	Status gadgetPart            `json:"status,omitempty"`
	Some   map[string]gadgetPart `json:"some,omitempty"`
	List   []gadgetPart          `json:"list"`
	To     *gadgetPart           `json:"to,omitempty"`
	Any    any                   `json:"any,omitempty"`
	Raw    runtime.RawExtension  `json:"raw,omitempty"`
	Since  metav1.Time           `json:"since"`
	Much   quantity.Quantity     `json:"much,omitempty"`
	Port   intstr.IntOrString    `json:"port,omitempty"`
	hidden gadgetPart
}

type gadgetPart struct {
	Size  int32              `json:"size"`
	Name  string             `json:"name,omitempty"`
	Inner corev1.Affinity    `json:"inner,omitempty"`
	Heap  map[string]string  `json:"heap"`
	Limit *quantity.Quantity `json:"limit,omitempty"`
}

type parts struct {
	Extra gadgetPart `json:"extra,omitempty"`
}

// shadowing has a field that hides a field of an embedded struct.
type shadowing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	parts             `json:",inline"`

	Extra gadgetPart `json:"extra,omitempty"`
}

func (s *shadowing) DeepCopyObject() runtime.Object { c := *s; return &c }

func (g *gadget) DeepCopyObject() runtime.Object { c := *g; return &c }

func TestUnsetFieldsAreNotApplied(t *testing.T) {
	named := metav1.ObjectMeta{Name: "a"}
	labels := map[string]string{"a": "b"}
	for _, c := range []struct {
		name string
		o    object.Object
		want string
	}{
		{"a status, a strategy, resources", &appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "m", Image: "i"}},
			}},
		}}, `{"metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"m","image":"i"}]}}}}`},
		{"an empty pointer is meant", &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{},
			Containers:      []corev1.Container{{}},
			Volumes:         []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}}, `{"metadata":{"name":"a"},"spec":{"securityContext":{},"containers":[{"name":""}],"volumes":[{"name":"v","emptyDir":{}}]}}`},
		{"an empty selector is meant", &networkingv1.NetworkPolicy{ObjectMeta: named, Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{"Ingress"},
		}}, `{"metadata":{"name":"a"},"spec":{"podSelector":{},"policyTypes":["Ingress"]}}`},
		{"a target port of nothing", &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			`{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`},
		{"nothing of a custom resource", &gadget{ObjectMeta: named, hidden: gadgetPart{Size: 1}}, `{"metadata":{"name":"a"},"spec":{"size":0}}`},
		{"all of it", &gadget{
			ObjectMeta: named, parts: &parts{Extra: gadgetPart{Size: 1}}, Spec: gadgetPart{Name: "s"}, Status: gadgetPart{Heap: map[string]string{}},
			Some: map[string]gadgetPart{"x": {}}, List: []gadgetPart{{}}, To: &gadgetPart{}, Any: &gadgetPart{},
			Raw: runtime.RawExtension{Raw: []byte(`{"null":null,"empty":{}}`)}, Since: metav1.NewTime(time.Unix(0, 0).UTC()),
			Much: quantity.MustParse("0"), Port: intstr.FromString("http"),
		}, `{"metadata":{"name":"a"},"extra":{"size":1},"spec":{"size":0,"name":"s"},"status":{"size":0,"heap":{}},
			"some":{"x":{"size":0}},"list":[{"size":0}],"to":{"size":0},"any":{"size":0},
			"raw":{"null":null,"empty":{}},"since":"1970-01-01T00:00:00Z","much":"0","port":"http"}`},
		{"a field that hides an empty one", &shadowing{ObjectMeta: named, Extra: gadgetPart{Size: 1}}, `{"metadata":{"name":"a"},"extra":{"size":1}}`},
		{"an empty field that hides one", &shadowing{ObjectMeta: named, parts: parts{Extra: gadgetPart{Size: 1}}}, `{"metadata":{"name":"a"}}`},
		{"a time of nothing, with a place", &gadget{ObjectMeta: named, Since: metav1.NewTime(time.Time{}.Local())}, `{"metadata":{"name":"a"},"spec":{"size":0}}`},
		{"large numbers", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 9007199254740993}},
			`{"metadata":{"name":"a","generation":9007199254740993}}`},
		{"an unstructured object is as it is", &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{}, "x": nil}}, `{"status":{},"x":null}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := json.Marshal(c.o)
			require.NoError(t, err)
			got, err := applied(c.o, body)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
			if c.name == "large numbers" {
				require.Contains(t, string(got), "9007199254740993")
			}
		})
	}
	_, err := applied(&corev1.Pod{}, []byte("["))
	require.ErrorContains(t, err, "decode the encoded object")
}
