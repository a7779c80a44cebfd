package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/recording"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// recordBubbled records pods, nodes and Secrets for ten minutes with faults.
func recordBubbled(t *testing.T, file string) (said string) {
	t.Helper()
	srv, cfg := debugtest.Bubbled(t)
	var stdout, stderr debugtest.Transcript
	_, err := srv.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Data: map[string][]byte{"a": []byte("hunter2")}})
	require.NoError(t, err)
	f := recordFlags{file: file, duration: 10 * time.Minute, maxSize: "1Mi", sight: sight.Flags{AllNamespaces: true}}
	require.NoError(t, f.check())
	go func() {
		time.Sleep(time.Minute)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodPending)
		srv.Restart()
		srv.Compact()
		time.Sleep(time.Minute)
		debugtest.Put(t, srv, object.Key{Namespace: "shop", Name: "web-2"}, corev1.PodRunning)
		assert.NoError(t, srv.Delete(object.GVR{Version: "v1", Resource: "pods"}, object.Key{Namespace: "shop", Name: "web-1"}))
		srv.Faults().Add(apiservertest.Fault{Resource: "pods", Count: 2, Do: []apiservertest.Action{apiservertest.Fail{Code: 500}}})
		srv.Restart()
	}()
	require.NoError(t, f.run(t.Context(), cfg, "pods,nodes,secrets", terminal.NewConsole(debugtest.Onto(&stdout, &stderr), false)))
	return stderr.String()
}

func TestRecordAndReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bug.recording")
		said := recordBubbled(t, path)
		for _, want := range []string{"recorded ", "after 10m", "the contents of Secrets are not recorded: use --include-secrets to record them", path} {
			assert.Contains(t, said, want)
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(raw), "hunter2")

		for speed, took := range map[string][2]time.Duration{"1": {9 * time.Minute, 12 * time.Minute}, "10": {50 * time.Second, 2 * time.Minute}, "max": {0, time.Minute}} {
			var stdout, stderr debugtest.Transcript
			began := time.Now()
			code := run(t.Context(), []string{"replay", path, "pods", "-o", "name", "--speed", speed}, around(&stdout, &stderr))
			require.Equal(t, exit.CodeOK, code, stderr.String())
			require.Equal(t, "add shop pods/web-1\nadd shop pods/web-2\nupdate shop pods/web-2\ndelete shop pods/web-1\n", stdout.String(), stderr.String())
			for _, want := range []string{"InitialWatch", "synced", "internalerror: ", "1 added, 1 updated, 1 deleted, 1 initial", "stopped"} {
				assert.Contains(t, stderr.String(), want)
			}
			assert.GreaterOrEqual(t, time.Since(began), took[0], speed)
			assert.LessOrEqual(t, time.Since(began), took[1], speed)
		}
	})
}

// A recording that has dropped its oldest part can still be played: the informer lists again.
func TestARecordingThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, cfg := debugtest.Bubbled(t)
		path := filepath.Join(t.TempDir(), "bug.recording")
		f := recordFlags{file: path, duration: 12 * time.Hour, maxSize: "1Mi", sight: sight.Flags{AllNamespaces: true}}
		require.NoError(t, f.check())
		go func() {
			noise, source := make([]byte, 10_000), rand.NewChaCha8([32]byte{})
			for n := range 600 { // a quarter of MaxSize in more than a quarter of an hour
				time.Sleep(time.Minute)
				_, _ = source.Read(noise)
				_, err := srv.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "noisy",
					Labels: map[string]string{"is": fmt.Sprint("change-", n)}, Annotations: map[string]string{"noise": hex.EncodeToString(noise)}}})
				assert.NoError(t, err)
			}
		}()
		var stdout, stderr debugtest.Transcript
		require.NoError(t, f.run(t.Context(), cfg, "pods", terminal.NewConsole(debugtest.Onto(&stdout, &stderr), false)))
		require.Contains(t, stderr.String(), "dropped")

		var replayed, said debugtest.Transcript
		code := run(t.Context(), []string{"get", "pods", "-o", "name", "-l", "is=change-599", "--replay", path}, around(&replayed, &said))
		require.Equal(t, exit.CodeOK, code, said.String())
		require.Equal(t, "pods/noisy\n", replayed.String(), said.String())
		code = run(t.Context(), []string{"get", "pods", "-o", "name", "--replay", path}, around(&replayed, &said))
		require.Equal(t, exit.CodeOK, code, said.String())
		require.Contains(t, replayed.String(), "pods/web-1\n", "which did not change for hours")
	})
}

func TestRecordingWithNothingLeft(t *testing.T) {
	all := recording.Status{Requests: 2, LeftOut: recording.LeftOut{Requests: 2, Bytes: 9}}
	require.EqualError(t, allLeftOut(all, "--max-size", ""), "nothing is left of the recording: more data arrived than fits in --max-size")
	all.Requests = 3
	require.NoError(t, allLeftOut(all, "--max-size", ""))
	require.NoError(t, allLeftOut(recording.Status{}, "--max-size", ""))
}

func TestReplayDescribesTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bug.recording")
		recordBubbled(t, path)
		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{nil, exit.CodeUsage, "has several informers: select one with TYPE, -n, -A, -l, --field-selector or --metadata-only; available: nodes; pods; secrets"},
			{[]string{"deployments"}, exit.CodeUsage, "has no such informer; available: nodes; pods; secrets"},
			{[]string{"pods", "-n", "shop"}, exit.CodeUsage, "has no such informer"},
			{[]string{"secrets"}, exit.CodeRuntime, "the contents of Secrets were not recorded"},
			{[]string{"pods", "--speed", "-1"}, exit.CodeUsage, "want a positive number"},
		} {
			var stdout, stderr debugtest.Transcript
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			code := run(ctx, append([]string{"replay", path}, c.args...), around(&stdout, &stderr))
			cancel()
			assert.Equal(t, c.code, code, c.args)
			assert.Contains(t, stderr.String(), c.want, c.args)
		}
	})
}

func TestRecordRefusesInvalidArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"specify the types to record":              {"-o", "x"},
		"specify the file to write":                {"pods"},
		"want at least 1Mi":                        {"pods", "-o", "x", "--max-size", "5"},
		"--duration must not be negative, got -1s": {"pods", "-o", "x", "--duration", "-1s"},
		"-n a and -A cannot be used together":      {"pods", "-o", "x", "-n", "a", "-A"},
	} {
		r := invoke(t, append([]string{"record"}, args...)...)
		assert.Equal(t, exit.CodeUsage, r.Code, want)
		assert.Contains(t, r.ErrOut, want)
	}
}

// Recording a TYPE that the cluster does not serve keeps the two previous recordings.
func TestRecordOfAnUnknownTypeTouchesNoFile(t *testing.T) {
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	path := filepath.Join(t.TempDir(), "bug.recording")
	require.NoError(t, os.WriteFile(path, []byte("kept"), 0o600))
	r := invoke(t, "record", "pods,sheep", "-o", path, server)
	require.Equal(t, exit.CodeUnavailable, r.Code)
	require.Contains(t, r.ErrOut, "sheep")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "kept", string(content))
	require.NoFileExists(t, path+".previous")
}

// A recording shows the objects at its end, as a cluster or a process would.
func TestGetOfARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bug.recording")
		recordBubbled(t, path)
		get := func(args ...string) debugtest.Result {
			var stdout, stderr debugtest.Transcript
			code := run(t.Context(), append([]string{"get", "--replay", path}, args...), around(&stdout, &stderr))
			return debugtest.Result{Code: code, Out: stdout.String(), ErrOut: stderr.String()}
		}
		r := get()
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		require.Regexp(t, `(?m)^pods +\w+ +true +1 +\d+`, r.Out)
		require.Regexp(t, `(?m)^nodes +\w+ +true +0 +\d+`, r.Out)
		require.Equal(t, "pods/web-2\n", get("pods", "-o", "name").Out)
		require.Equal(t, "pods/web-2\n", get("po,node", "-n", "shop", "-l", "app=web", "-o", "name").Out)
		require.Empty(t, get("pods", "-n", "bank", "-o", "name").Out)
		require.Equal(t, "Running", get("pods/web-2", "-n", "shop", "-o", "jsonpath={.status.phase}").Out)

		for code, args := range map[int][]string{
			exit.CodeUnavailable: {"pods/web-1", "-n", "shop"}, // it was deleted
			exit.CodeUsage:       {"leases,pods"},
			exit.CodeRuntime:     {"pods", "--replay", path + ".not"},
		} {
			require.Equal(t, code, get(args...).Code, args)
		}
		require.Contains(t, get("leases").ErrOut, "has no such informer; available: nodes; pods; secrets")
		require.Contains(t, get("pods,leases").ErrOut, "contains nothing for leases; it contains: nodes; pods; secrets")
		require.Contains(t, get("--attach=http://localhost:1").ErrOut, "--attach and --replay cannot be used together")
		require.Contains(t, get("pods", "--watch").ErrOut, "omit --watch, or use informer-debug replay "+path)
		require.Contains(t, get("pods", "--field-selector=a=b").ErrOut, "--field-selector cannot be used with --replay")
	})
}

// The page shows the recording being played, with the objects at its end.
func TestServeOfARecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bug.recording")
	synctest.Test(t, func(t *testing.T) { recordBubbled(t, path) })
	client := debug.Attach(servePage(t, "--replay", path, "--speed", "max", "--listen", "127.0.0.1:0"), nil)
	require.Eventually(t, func() bool {
		objects, err := client.Objects(t.Context(), debug.Which{Informer: "pods"}, debug.Page{})
		return err == nil && len(objects.Heads) == 1 && objects.Heads[0].Name == "web-2" && objects.RV == "105"
	}, 20*time.Second, 10*time.Millisecond)
	status, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "recording", status.Process.Program)
}

// onRecording runs a command on a recording of recordBubbled.
func onRecording(t *testing.T) func(verb string, args ...string) debugtest.Result {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bug.recording")
	recordBubbled(t, path)
	return func(verb string, args ...string) debugtest.Result {
		var stdout, stderr debugtest.Transcript
		code := run(t.Context(), append([]string{verb, "--replay", path}, args...), around(&stdout, &stderr))
		return debugtest.Result{Code: code, Out: stdout.String(), ErrOut: stderr.String()}
	}
}

func TestWhyOfARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := onRecording(t)
		r := on("why", "po/web-2", "-n", "shop")
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		require.Equal(t, "At the end of the recording, the cache has po/web-2 with version 104, and is complete up to version 105.", r.Lines()[0])
		require.Contains(t, r.Out, "applied shop/web-2 update rv 104")
		r = on("why", "pods/web-1", "-n", "shop")
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		require.Equal(t, "At the end of the recording, pods/web-1 is not in the cache, which is complete up to version 105.", r.Lines()[0])
		require.Contains(t, r.Out, "applied shop/web-1 delete")
		require.Len(t, on("why", "pods/web-1", "-n", "shop", "--last=1").Lines(), 3)
		for want, args := range map[string][]string{
			"pods/none is unknown: it is neither in the cache at the end": {"pods/none", "-n", "shop"},
			"pods/web-1 is namespaced: specify the namespace with -n":     {"pods/web-1"},
			"matches 2 informers": {"pods,nodes/a", "-n", "shop"},
			"no such informer":    {"leases/a", "-n", "shop"},
		} {
			r := on("why", args...)
			require.NotEqual(t, exit.CodeOK, r.Code, args)
			require.Contains(t, r.ErrOut, want)
		}
	})
}

func TestWaitForARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := onRecording(t)
		for _, c := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"pods/web-1", "-n", "shop", "--for=delete"}, exit.CodeOK, "pods/web-1: it is not in the cache\n"},
			{[]string{"po", "-n", "shop", "--for=jsonpath={.status.phase}=Running"}, exit.CodeOK, "holds for "},
			{[]string{"pods/web-2", "-n", "shop", "--for=jsonpath={.status.phase}=Pending", "--speed=10", "--timeout=5m"}, exit.CodeOK, "pods/web-2: it is Pending\n"},
			{[]string{"pods", "--for=rv=105"}, exit.CodeOK, "pods: the cache is complete up to version 105\n"},
			{[]string{"pods/web-2", "-n", "shop", "--for=condition=Ready"}, exit.CodeFalse, "the recording ended: pods/web-2: no condition Ready"},
			{[]string{"nodes", "-n", "shop", "--for=create"}, exit.CodeFalse, "the recording ended: nodes: 0 objects are in the cache"},
			{[]string{"pods/web-2", "--for=create"}, exit.CodeUsage, "pods/web-2 is namespaced: specify the namespace with -n"},
			{[]string{"secrets", "--for=synced"}, exit.CodeRuntime, "the contents of Secrets were not recorded"},
			{[]string{"keeper", "--for=queue=0"}, exit.CodeUsage, "a recording has no handlers or queues: use controllertest.Replay"},
		} {
			r := on("wait", c.args...)
			require.Equal(t, c.code, r.Code, "%v: %s%s", c.args, r.Out, r.ErrOut)
			require.Contains(t, r.Out+r.ErrOut, c.want, c.args)
		}
	})
}

func TestChurnOfARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := onRecording(t)
		r := on("churn", "-o", "jsonl")
		require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
		require.Contains(t, r.ErrOut, "the contents of Secrets were not recorded")
		type churned struct {
			Type                                            string
			Events, Listed, Added, Changed, Deleted, Missed int
			Fields                                          []struct{ Name string }
		}
		of := map[string]churned{}
		for _, line := range r.Lines() {
			var one churned
			require.NoError(t, json.Unmarshal([]byte(line), &one), line) // except durations, which have other names
			of[one.Type] = one
		}
		pods := of["pods in all namespaces"]
		require.Len(t, of, 2, r.Out)
		require.Equal(t, 1, pods.Listed, r.Out)
		require.Equal(t, 1, pods.Added+pods.Missed, "web-2 came before the watch broke, or with the list that followed: %s", r.Out)
		require.Equal(t, 2, pods.Changed+pods.Deleted, r.Out)
		require.Equal(t, pods.Added+2, pods.Events, r.Out)
		require.Equal(t, "status.phase", pods.Fields[0].Name)
		require.Contains(t, on("churn", "po").Out, "within 10m0s")
		require.Contains(t, on("churn", "po", "-n", "shop").Out, fmt.Sprintf("pods in namespace shop: %d events within 10m0s", pods.Events))
		other := on("churn", "po", "-n", "bank")
		require.Equal(t, exit.CodeOK, other.Code, other.ErrOut)
		require.Contains(t, other.Out, "pods in namespace bank: 0 events within 10m0s")
		require.NotContains(t, other.Out, "shop/")
		require.Contains(t, on("churn", "pods", "-l", "a=b").ErrOut, "--selector cannot be used with --replay")
		require.Equal(t, exit.CodeRuntime, on("churn", "secrets").Code)
	})
}

// recordingProcess returns a process that records the pods of the shop.
func recordingProcess(t *testing.T, opts recording.Options) (flag string, recorder *recording.Recorder) {
	t.Helper()
	_, server := debugtest.Cluster(t, apiservertest.Options{})
	recorder, err := recording.Create(filepath.Join(t.TempDir(), "process.recording"), opts)
	require.NoError(t, err)
	client, err := rest.NewClient(&config.Config{Host: server[len("--server="):], Recorder: recorder}, scheme.New())
	require.NoError(t, err)
	f := factory.New(client, factory.Options{Namespaces: []string{"shop"}})
	factory.Informer[*corev1.Pod](f)
	factory.Informer[*corev1.Secret](f)
	second := factory.New(client, factory.Options{Namespaces: []string{"shop"}}) // one would have been enough
	factory.Informer[*corev1.Pod](second)
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx)
	second.Start(ctx)
	require.NoError(t, errors.Join(f.WaitForSync(ctx), second.WaitForSync(ctx)))
	at := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(f), Contents: true, Recording: recorder}))
	t.Cleanup(func() {
		cancel()
		f.Wait()
		second.Wait()
		client.CloseIdleConnections()
		_ = recorder.Close() // again, if the test has closed it
		at.Close()
	})
	return "--attach=" + at.URL, recorder
}

// A recording that is not in its file is a failure, however the recording was stopped.
func TestRecordOfAProcessWhoseFileIsRemoved(t *testing.T) {
	at, _ := recordingProcess(t, recording.Options{})
	path := filepath.Join(t.TempDir(), "bug.recording")
	go func() {
		for os.Remove(path) != nil && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	r := invoke(t, "record", at, "-o", path, "--duration=2s")
	require.Equal(t, exit.CodeRuntime, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "the file was moved or removed during the recording")
}

// The data that a process receives can be recorded while it runs, including typed objects from
// protobuf.
func TestRecordOfAProcess(t *testing.T) {
	at, recorder := recordingProcess(t, recording.Options{})
	path := filepath.Join(t.TempDir(), "bug.recording")
	r := invoke(t, "record", at, "-o", path, "--duration=3s")
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Regexp(t, `recorded +3 requests, `, r.ErrOut)
	r = invoke(t, "get", "pods", "-n", "shop", "-o", "name", "--replay", path)
	require.Equal(t, "pods/cart-1\npods/web-1\n", r.Out, r.ErrOut)
	require.NotContains(t, r.ErrOut, "!", "the file is whole")
	r = invoke(t, "get", "secrets", "-n", "shop", "--replay", path)
	require.Equal(t, exit.CodeRuntime, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "the contents of Secrets were not recorded")
	r = invoke(t, "churn", "--replay", path)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "the contents of Secrets were not recorded")
	require.Contains(t, r.Out, "pods in namespace shop: 0 events within")
	require.Contains(t, r.Out, "2 existed before")

	ended := time.AfterFunc(time.Second, func() { assert.NoError(t, recorder.Close()) })
	defer ended.Stop()
	r = invoke(t, "record", at, "-o", path)
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	require.Contains(t, r.ErrOut, "ended: the process stopped it")
	for want, args := range map[string][]string{
		"omit the type":                                   {"pods"},
		"-A and -l cannot be used with --attach":          {"-A"},
		"a process does not show the contents of Secrets": {"--include-secrets"},
	} {
		r := invoke(t, append([]string{"record", at, "-o", path}, args...)...)
		require.Equal(t, exit.CodeUsage, r.Code, args)
		require.Contains(t, r.ErrOut, want)
	}
}

func TestRecordOfAProcessThatDoesNotAllowIt(t *testing.T) {
	at, _ := recordingProcess(t, recording.Options{IncludeSecrets: true})
	other := httptest.NewServer(program(t, true))
	defer other.Close()
	for want, at := range map[string]string{"contains Secrets, which are never shown": at, "This process is not recording": "--attach=" + other.URL} {
		path := filepath.Join(t.TempDir(), "bug.recording")
		r := invoke(t, "record", at, "-o", path)
		require.Equal(t, exit.CodeUnavailable, r.Code, r.ErrOut)
		require.Contains(t, r.ErrOut, want)
		require.NoFileExists(t, path)
	}
}

// Commands that do not support a recording suggest an alternative.
func TestCommandsThatDoNotSupportARecording(t *testing.T) {
	for want, args := range map[string][]string{
		"informer-debug replay x.recording shows a recording as watch":           {"watch", "pods"},
		"informer-debug get --replay x.recording shows what its caches held":     {"check"},
		"informer-debug get --replay x.recording shows the state and the fail":   {"doctor"},
		"informer-debug churn --replay x.recording reports what Keep would save": {"cost"},
	} {
		r := invoke(t, append(args, "--replay=x.recording")...)
		require.Equal(t, exit.CodeUsage, r.Code, args)
		require.Contains(t, r.ErrOut, want)
	}
}
