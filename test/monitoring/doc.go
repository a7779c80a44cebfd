// Package monitoring checks docs/metrics.md, and the dashboard and alerts of docs/monitoring, against the
// metrics of a running program.
package monitoring
