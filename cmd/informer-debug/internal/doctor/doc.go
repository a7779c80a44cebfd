// Package doctor implements the verb doctor, which finds out what is wrong, or soon will be, with a cluster (a probe)
// or a process (an examination), and what to do about it.
package doctor
