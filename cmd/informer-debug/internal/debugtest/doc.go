// Package debugtest has helpers for the tests of the command's packages: streams that can be read while they are
// written, small clusters, and a function that runs one verb.
package debugtest
