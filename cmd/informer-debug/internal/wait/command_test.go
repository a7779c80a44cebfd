package wait

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
)

// awaited runs wait on a server in a bubble with one pod, shop/web-1, and calls then to change it.
func awaited(t *testing.T, flags waitFlags, args []string, then func(*apiservertest.Server)) (text string, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, cfg := debugtest.Bubbled(t)
		cfg.Namespace = "shop"
		var stdout, stderr debugtest.Transcript
		var look sight.Flags
		require.NoError(t, look.Check())
		require.NoError(t, flags.check(&look))
		subjects, e := flags.subjectsOf(args)
		require.NoError(t, e)
		v, e := look.OpenCluster(t.Context(), cfg, "pods", nil)
		require.NoError(t, e)
		defer v.Close()
		subjects, e = nameAll(t.Context(), v, subjects)
		require.NoError(t, e)
		if then != nil {
			time.AfterFunc(3*time.Second, func() { then(srv) })
		}
		ctx, cancel := exit.Limited(t.Context(), flags.timeout)
		defer cancel()
		began := time.Now()
		err = exit.Unfinished(ctx, flags.timeout, (&waiter{waitFlags: &flags, sight: v, subjects: subjects, console: terminal.NewConsole(debugtest.Onto(&stdout, &stderr), false)}).wait(ctx, &stdout))
		text, took = stdout.String(), time.Since(began)
		switch said := strings.Contains(stderr.String(), "  waiting  "); {
		case took > terminal.LateAfter+2*lookAtLeast:
			require.True(t, said, "it waits without a word\n%s", &stderr)
		case took < terminal.LateAfter:
			require.False(t, said, &stderr)
		}
	})
	return text, took, err
}

// ready stores the pod web-1 with a condition.
func ready(t *testing.T, srv *apiservertest.Server, status corev1.ConditionStatus) {
	_, err := srv.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: status, Reason: "ContainersNotReady", Message: "still pulling"}}},
	})
	assert.NoError(t, err)
}

func TestWaitEndsWhenTheConditionHolds(t *testing.T) {
	web := object.Key{Namespace: "shop", Name: "web-1"}
	for name, c := range map[string]struct {
		until string
		args  []string
		any   bool
		then  func(*apiservertest.Server)
		want  string
	}{
		"synced":      {until: "synced", args: []string{"pods"}, want: "pods: 1 objects are in the cache, complete up to version 101\n"},
		"rv":          {until: "rv=1", args: []string{"po"}, want: "po: the cache is complete up to version 101\n"},
		"there":       {until: "create", args: []string{"pods/web-1"}, want: "pods/web-1: it is in the cache with version 101\n"},
		"any":         {until: "create", args: []string{"pods/web-1", "pods/none"}, any: true, want: "pods/web-1: it is in the cache with version 101\n"},
		"all there":   {until: "jsonpath={.status.phase}=Running", args: []string{"pods"}, want: "pods: jsonpath={.status.phase}=Running holds for 1 objects\n"},
		"path is set": {until: "jsonpath=.status.phase", args: []string{"pods/web-1"}, want: "pods/web-1: it is Running\n"},
		"created": {until: "create", args: []string{"pods/new"}, then: func(srv *apiservertest.Server) {
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning)
		}, want: "pods/new: it is in the cache with version 102\n"},
		"deleted":     {until: "delete", args: []string{"pods/web-1"}, then: func(srv *apiservertest.Server) { assert.NoError(t, srv.Delete(debugtest.Pods(), web)) }, want: "pods/web-1: it is not in the cache\n"},
		"all deleted": {until: "delete", args: []string{"pods"}, then: func(srv *apiservertest.Server) { assert.NoError(t, srv.Delete(debugtest.Pods(), web)) }, want: "pods: 0 objects are in the cache\n"},
		"made again": {until: "delete", args: []string{"pods/web-1"}, then: func(srv *apiservertest.Server) {
			_ = srv.Delete(debugtest.Pods(), web)
			debugtest.Put(t, srv, web, corev1.PodRunning)
		}, want: "pods/web-1: it was deleted and created again\n"},
		"a condition": {until: "condition=ready", args: []string{"pods/web-1"}, then: func(srv *apiservertest.Server) { ready(t, srv, "True") }, want: "pods/web-1: condition ready is True\n"},
		"other value": {until: "condition=Ready=False", args: []string{"pods/web-1"}, then: func(srv *apiservertest.Server) { ready(t, srv, "False") }, want: "pods/web-1: condition Ready is False\n"},
		"other phase": {until: "jsonpath={.status.phase}=Failed", args: []string{"pods/web-1"}, then: func(srv *apiservertest.Server) { debugtest.Put(t, srv, web, corev1.PodFailed) }, want: "pods/web-1: it is Failed\n"},
		"after a rest": {until: "create", args: []string{"pods/new"}, then: func(srv *apiservertest.Server) {
			srv.Restart()
			debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "new"}, corev1.PodRunning)
		}, want: "pods/new: it is in the cache with version 102\n"},
	} {
		t.Run(name, func(t *testing.T) {
			text, took, err := awaited(t, waitFlags{until: c.until, any: c.any, timeout: time.Minute}, c.args, c.then)
			require.NoError(t, err)
			require.Equal(t, c.want, text)
			if c.then == nil {
				require.Less(t, took, time.Second)
			} else {
				require.GreaterOrEqual(t, took, 3*time.Second)
			}
			if name != "after a rest" { // it is called when the cache changes, not at the next tick
				require.Less(t, took, 3*time.Second+100*time.Millisecond)
			}
		})
	}
}

func TestWaitReportsUnmetConditions(t *testing.T) {
	for until, c := range map[string]struct {
		args []string
		then func(*apiservertest.Server)
		want string
	}{
		"create":                          {args: []string{"pods/web-1", "pods/none"}, want: "--timeout of 8s expired: pods/none: it is not in the cache"},
		"delete":                          {args: []string{"pods"}, want: "pods: 1 objects are in the cache"},
		"rv=999":                          {args: []string{"pods"}, then: func(srv *apiservertest.Server) { srv.Down() }, want: "pods: the cache is complete up to version 101, and no changes arrive: pods in namespace shop: "},
		"condition=Ready":                 {args: []string{"pods/web-1"}, then: func(srv *apiservertest.Server) { ready(t, srv, "False") }, want: "pods/web-1: condition Ready is False: ContainersNotReady: still pulling"},
		"condition=Other":                 {args: []string{"pods/web-1"}, want: "pods/web-1: no condition Other"},
		"jsonpath={.status.phase}=Failed": {args: []string{"pods"}, want: "pods: shop/web-1: it is Running"},
		"jsonpath=.spec.nodeName":         {args: []string{"pods/web-1"}, want: "pods/web-1: no value at that path"},
	} {
		t.Run(until, func(t *testing.T) {
			text, took, err := awaited(t, waitFlags{until: until, timeout: 8 * time.Second}, c.args, c.then)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, exit.CodeTimeout, err.(*exit.Error).Code)
			require.Equal(t, 8*time.Second, took)
			require.Empty(t, text)
		})
	}
}
