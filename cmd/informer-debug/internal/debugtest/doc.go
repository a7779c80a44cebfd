// Package debugtest provides helpers for the tests of the command's packages: streams that can be read
// while they are being written, small clusters, and a function that runs one verb.
package debugtest
