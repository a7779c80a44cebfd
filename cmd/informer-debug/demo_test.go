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

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// In these tests time is virtual and connections are in memory.

// demonstrate runs the demonstration in virtual time.
func demonstrate(t *testing.T, args ...string) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr transcript
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a demonstration without end fails
		defer cancel()
		r.code = run(ctx, append([]string{"demo"}, args...), around(&stdout, &stderr))
		require.NoError(t, ctx.Err(), "it did not end by itself")
		r.out, r.errOut = stdout.String(), stderr.String()
	})
	return r
}

func TestDemoIsAliveWithinASecond(t *testing.T) {
	r := demonstrate(t, "--duration", "1s")
	assert.Equal(t, exit.CodeOK, r.code, r.errOut)
	assert.Regexp(t, `(?m)^[+~-] .*\d+(ns|µs|ms)$|^[+~-] .* \d`, r.out)
	assert.GreaterOrEqual(t, len(r.lines()), 1+6+3, r.out)
}

// TestDemo lets every fault happen once and more, and then compares what was
// shown with what there was.
func TestDemo(t *testing.T) {
	r := demonstrate(t, "--duration", "100.02s", "--rate", "20")
	require.Equal(t, exit.CodeOK, r.code, r.errOut)
	faults := map[string]bool{}
	for _, f := range regexp.MustCompile(`(?m)^\* \S+  fault         (.*)$`).FindAllStringSubmatch(r.errOut, -1) {
		faults[f[1]] = true
	}
	assert.Len(t, faults, 7, r.errOut)
	for _, want := range []string{
		"! ", "unexpected EOF", "expired: ", "500 Internal Server Error", "decode application/json",
		"toomanyrequests: ", "connection refused", "InitialWatch  again, the changes after rv", "latency       p50",
	} {
		assert.Contains(t, r.errOut, want)
	}

	shown := map[string]bool{}
	for _, line := range r.lines()[1:] {
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
	m := regexp.MustCompile(`stopped .* (\d+) objects`).FindStringSubmatch(r.errOut)
	require.NotNil(t, m, r.errOut)
	assert.Len(t, shown, atoi(t, m[1]))
}

func TestDemoFlags(t *testing.T) {
	first := demonstrate(t, "-c", "15", "--seed", "7", "--faults=false", "-o", "name")
	again := demonstrate(t, "-c", "15", "--seed", "7", "--faults=false", "-o", "name")
	other := demonstrate(t, "-c", "15", "--seed", "8", "--faults=false", "-o", "name")
	assert.Equal(t, first.out, again.out)
	assert.NotEqual(t, first.out, other.out)

	r := demonstrate(t, "leases", "--timeout", "10s", "--faults=false", "--watch-only", "-n", corev1.NamespaceNodeLease)
	assert.Equal(t, exit.CodeTimeout, r.code, r.errOut)
	assert.Contains(t, r.out, "~ ")
	assert.NotContains(t, r.errOut, "* ")
	assert.NotContains(t, r.errOut, "! ")

	r = demonstrate(t, "-c", "20", "-n", "bank", "-l", "app=api")
	assert.Equal(t, exit.CodeOK, r.code, r.errOut)
	assert.Len(t, r.lines(), 21)
	assert.Equal(t, 20, strings.Count(r.out, "bank/api-"))
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
