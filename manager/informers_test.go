package manager_test

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/manager"
	"github.com/millrace-dev/millrace/metrics"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// told is a foreign source of informers.
type told func() []sharedinformer.Status

func (f told) Status() []sharedinformer.Status { return f() }

// Informers whose status cannot be read are shown with the reason, together with all others.
func TestAReportSurvivesASourceOfInformersThatFails(t *testing.T) {
	m, err := manager.New(&config.Config{Host: "http://127.0.0.1:1"}, manager.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, m.AddInformers("nobody", nil), `the source for "nobody" is nil`)
	require.ErrorContains(t, metrics.NewRegistry().AddInformers("nobody", nil), `of cluster "nobody" are nil`)
	require.NoError(t, m.AddInformers("nobody", told(func() []sharedinformer.Status { panic("boom") })))
	require.NoError(t, m.AddInformers("gone", told(func() []sharedinformer.Status { runtime.Goexit(); return nil })))
	report := m.Report()
	require.ErrorContains(t, report.Clusters["nobody"][0].Failure, "panicked: boom")
	require.ErrorContains(t, report.Clusters["gone"][0].Failure, "Goexit")
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.Contains(t, string(text), "panicked: boom")
}
