package flight

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWordsForAnInformer(t *testing.T) {
	for _, c := range []struct {
		text, informer string
		names, whole   bool
	}{
		{"pods", "pods", true, true},
		{"po", "pods", true, true},
		{"pod", "pods", true, true},
		{"pods", "pods in namespace shop", true, false},
		{"po", "pods in namespace shop", true, false},
		{"pods in namespace shop", "pods in namespace shop", true, true},
		{"deploy", "deployments.apps", true, false},
		{"deployments.apps", "deployments.apps", true, true},
		{"deployment.apps", "deployments.apps", true, false},
		{"deployment.batch", "deployments.apps", false, false},
		{"crontabs", "CronTab.stable.example.com in namespace shop", true, false},
		{"crontab.stable.example.com", "CronTab.stable.example.com in namespace shop", true, false},
		{"CronTab", "CronTab.stable.example.com in namespace shop", true, false},
		{"tabs", "CronTab.stable.example.com in namespace shop", false, false},
		{"policies", "Policy.example.com", true, false},
		{"po", "policies", false, false},
		{"", "pods", false, false},
		{"pods", "", false, false},
	} {
		assert.Equal(t, c.names, Names(c.text, c.informer), "%q of %q", c.text, c.informer)
		assert.Equal(t, c.whole, NamesWhole(c.text, c.informer), "%q of all of %q", c.text, c.informer)
	}
}
