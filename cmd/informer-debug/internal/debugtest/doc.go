// Package debugtest is what tests of the command's parts share: streams that can be read while
// they are written, small clusters, and a run of one verb.
package debugtest
