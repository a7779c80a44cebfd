// Package debugtest provides helpers for testing the command's packages: streams that can be read while they
// are being written, small clusters, and a function that runs a subcommand.
package debugtest
