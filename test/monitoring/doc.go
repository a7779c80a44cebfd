// Package monitoring checks docs/metrics.md, and the dashboard and alerts of docs/monitoring, against a
// running program's metrics.
package monitoring
