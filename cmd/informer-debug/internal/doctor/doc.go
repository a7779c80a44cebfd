// Package doctor is the verb doctor: what is wrong, or soon will be, with a cluster (a probe) or a
// process (an examination), as findings with what to do about them.
package doctor
