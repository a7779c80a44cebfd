// Package monitoring holds docs/metrics.md, and the dashboard and the alerts of
// docs/monitoring, to the metrics of a program that runs.
package monitoring
