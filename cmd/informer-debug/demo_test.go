package main

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// In these tests time is virtual and connections are in memory.

// demonstrate runs the demonstration in virtual time.
func demonstrate(t *testing.T, args ...string) (r debugtest.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr debugtest.Transcript
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // an endless demonstration fails
		defer cancel()
		r.Code = run(ctx, append([]string{"demo"}, args...), around(&stdout, &stderr))
		require.NoError(t, ctx.Err(), "it did not end by itself")
		r.Out, r.ErrOut = stdout.String(), stderr.String()
	})
	return r
}

func TestDemoIsAliveWithinASecond(t *testing.T) {
	r := demonstrate(t, "--duration", "1s")
	assert.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	assert.Regexp(t, `(?m)^[+~-] .*\d+(ns|µs|ms)$|^[+~-] .* \d`, r.Out)
	assert.GreaterOrEqual(t, len(r.Lines()), 1+6+3, r.Out)
}

// TestDemo waits until every fault has happened at least once, and then compares the output with
// the real events.
func TestDemo(t *testing.T) {
	r := demonstrate(t, "--duration", "100.02s", "--rate", "20")
	require.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	faults := map[string]bool{}
	for _, f := range regexp.MustCompile(`(?m)^\* \S+  fault         (.*)$`).FindAllStringSubmatch(r.ErrOut, -1) {
		faults[f[1]] = true
	}
	assert.Len(t, faults, 7, r.ErrOut)
	for _, want := range []string{
		"! ", "unexpected EOF", "expired: ", "500 Internal Server Error", "decode application/json",
		"toomanyrequests: ", "connection refused", "InitialWatch  again, the changes after rv", "latency       p50",
	} {
		assert.Contains(t, r.ErrOut, want)
	}

	shown := map[string]bool{}
	for _, line := range r.Lines()[1:] {
		f := strings.Fields(line)
		switch key := f[3]; f[0] {
		case "+":
			assert.False(t, shown[key], "%s was added twice", key)
			shown[key] = true
		case "~":
			assert.True(t, shown[key], "%s was updated and not there", key)
		case "-":
			assert.True(t, shown[key], "%s was deleted and not there", key)
			delete(shown, key)
		}
	}
	m := regexp.MustCompile(`stopped .* (\d+) objects`).FindStringSubmatch(r.ErrOut)
	require.NotNil(t, m, r.ErrOut)
	assert.Len(t, shown, atoi(t, m[1]))
}

func TestDemoFlags(t *testing.T) {
	first := demonstrate(t, "-c", "15", "--seed", "7", "--faults=false", "-o", "name")
	again := demonstrate(t, "-c", "15", "--seed", "7", "--faults=false", "-o", "name")
	other := demonstrate(t, "-c", "15", "--seed", "8", "--faults=false", "-o", "name")
	assert.Equal(t, first.Out, again.Out)
	assert.NotEqual(t, first.Out, other.Out)

	r := demonstrate(t, "leases", "--timeout", "10s", "--faults=false", "--watch-only", "-n", corev1.NamespaceNodeLease)
	assert.Equal(t, exit.CodeTimeout, r.Code, r.ErrOut)
	assert.Contains(t, r.Out, "~ ")
	assert.NotContains(t, r.ErrOut, "* ")
	assert.NotContains(t, r.ErrOut, "! ")

	r = demonstrate(t, "-c", "20", "-n", "bank", "-l", "app=api")
	assert.Equal(t, exit.CodeOK, r.Code, r.ErrOut)
	assert.Len(t, r.Lines(), 21)
	assert.Equal(t, 20, strings.Count(r.Out, "bank/api-"))
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
