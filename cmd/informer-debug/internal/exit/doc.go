// Package exit says how a run of the command ends: with which exit code, with what on stderr, and
// what it means that time was over or somebody pressed Ctrl-C.
package exit
