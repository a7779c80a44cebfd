package scheme_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/rest/scheme"
)

// missing maps the group versions that some supported releases of k8s.io/api lack to
// the releases that have them.
var missing = map[string]string{
	"apidiscovery.k8s.io/v2beta1":   "v0.35 to v0.37",
	"authorization.k8s.io/v1alpha1": "v0.38",
	"autoscaling/v2beta1":           "v0.35",
	"autoscaling/v2beta2":           "v0.35",
	"lifecycle.k8s.io/v1alpha1":     "v0.37",
	"scheduling.k8s.io/v1alpha1":    "v0.35",
	"scheduling.k8s.io/v1alpha2":    "v0.36",
	"scheduling.k8s.io/v1alpha3":    "v0.37",
	"storagemigration.k8s.io/v1":    "v0.37",
}

// Every directory of the module with a register.go must be registered here, so an
// upgrade of k8s.io/api cannot silently miss a group.
func TestEveryGroupVersionOfTheAPIModuleIsRegistered(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	require.NoError(t, err, "find the directory of k8s.io/api")
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*", "*", "register.go"))
	require.NoError(t, err)
	require.Greater(t, len(files), 50, "register.go files of k8s.io/api")

	s := scheme.New()
	groupName := regexp.MustCompile(`(?m)^const GroupName = "(.*)"`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		match := groupName.FindSubmatch(source)
		require.NotNil(t, match, "%s has no GroupName", file)
		gv := schema.GroupVersion{Group: string(match[1]), Version: filepath.Base(filepath.Dir(file))}
		// Options and WatchEvent are registered with any group; only a type from the
		// group's own package shows that the group is registered.
		pkg := "k8s.io/api/" + filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(filepath.Dir(file))), gv.Version))
		own := 0
		for _, typ := range s.KnownTypes(gv) {
			if typ.PkgPath() == pkg {
				own++
			}
		}
		if releases, ok := missing[gv.String()]; ok {
			assert.Zero(t, own, "%s: the scheme has it, so it is in every release and not in %s alone", gv, releases)
			continue
		}
		assert.NotZero(t, own, "%s: k8s.io/api has it, the scheme does not: add its AddToScheme to groups(), or the releases that have it to missing", gv)
	}
	t.Logf("%d group versions, %d kinds", len(files), len(s.AllKnownTypes()))
}

func TestMetaKindsAreRegistered(t *testing.T) {
	s := scheme.New()
	for _, kind := range []string{"Table", "PartialObjectMetadata", "PartialObjectMetadataList", "WatchEvent", "DeleteOptions"} {
		assert.True(t, s.Recognizes(metav1.SchemeGroupVersion.WithKind(kind)), kind)
	}
	for _, kind := range []string{"Status", "APIVersions", "APIGroupList", "APIResourceList"} {
		assert.True(t, s.Recognizes(schema.GroupVersionKind{Version: "v1", Kind: kind}), kind)
	}
}

func TestSchemesShareNothing(t *testing.T) {
	changed, other := scheme.New(), scheme.New()
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"}
	changed.AddKnownTypeWithName(gvk, &corev1.Pod{})
	assert.False(t, other.Recognizes(gvk), "a kind added to one scheme is in another")
}

func ExampleNew() {
	gvks, _, err := scheme.New().ObjectKinds(&corev1.Pod{})
	fmt.Println(gvks, err)
	// Output: [/v1, Kind=Pod] <nil>
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		scheme.New()
	}
}
