// Package debugtest provides helpers for testing the command's packages: streams that can be read while
// being written, small clusters, and a function that runs one subcommand.
package debugtest
