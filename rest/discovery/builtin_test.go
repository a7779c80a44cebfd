package discovery

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

// The source of k8s.io/api says which types are resources and which are namespaced:
// after an upgrade of the module, a wrong table fails this test.
func TestBuiltinKindsMatchTheAPIModule(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "k8s.io/api").Output()
	require.NoError(t, err, "find the directory of k8s.io/api")
	release, root, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	files, err := filepath.Glob(filepath.Join(root, "*", "v[0-9]*", "*.go"))
	require.NoError(t, err)

	groupName := regexp.MustCompile(`(?m)^const GroupName = "(.*)"`)
	version := regexp.MustCompile(`^v\d+$`)
	typed := regexp.MustCompile(`((?://.*\n|\n)*)type (\w+) struct`)
	client := regexp.MustCompile(`(?m)^// \+genclient$`)
	kinds := 0
	for _, file := range files {
		dir := filepath.Dir(file)
		if !version.MatchString(filepath.Base(dir)) {
			continue
		}
		register, err := os.ReadFile(filepath.Join(dir, "register.go"))
		require.NoError(t, err)
		gv := schema.GroupVersion{Group: string(groupName.FindSubmatch(register)[1]), Version: filepath.Base(dir)}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range typed.FindAllSubmatch(text, -1) {
			markers, kind := string(match[1]), gv.WithKind(string(match[2]))
			if !client.MatchString(markers) || strings.Contains(markers, "+genclient:noVerbs") {
				continue
			}
			kinds++
			m, ok := Builtin(kind)
			if assert.True(t, ok, "%s is missing", kind) {
				assert.Equal(t, !strings.Contains(markers, "+genclient:nonNamespaced"), m.Namespaced, "%s", kind)
			}
		}
	}
	// The table contains everything in the newest release; nothing was dropped.
	want := map[string]int{"v0.35": 63, "v0.36": 65, "v0.37": 69, "v0.38": 69}[release[:strings.LastIndex(release, ".")]]
	assert.Equal(t, want, kinds, "kinds of %s: some of the table are not in the module any more, or the other way round", release)
}

func TestBuiltinPlaces(t *testing.T) {
	for kind, resource := range map[object.GVK]string{
		{Version: "v1", Kind: "Pod"}:                                           "pods",
		{Version: "v1", Kind: "Endpoints"}:                                     "endpoints",
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}:     "networkpolicies",
		{Group: "networking.k8s.io", Version: "v1", Kind: "IngressClass"}:      "ingressclasses",
		{Group: "networking.k8s.io", Version: "v1", Kind: "IPAddress"}:         "ipaddresses",
		{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}:         "deviceclasses",
		{Group: "policy", Version: "v1", Kind: "Eviction"}:                     "",
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}: "horizontalpodautoscalers",
		{Group: "apps", Version: "v1beta1", Kind: "Deployment"}:                "",
		{Group: "example.com", Version: "v1", Kind: "Pod"}:                     "",
		{Version: "v1"}: "",
		{}:              "",
	} {
		m, ok := Builtin(kind)
		assert.Equal(t, resource != "", ok, "%s", kind)
		assert.Equal(t, resource, m.Resource.Resource, "%s", kind)
		if ok {
			assert.Equal(t, kind.GroupVersion(), m.Resource.GroupVersion())
		}
	}
}
