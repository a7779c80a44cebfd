// Package doctor implements the doctor command, which diagnoses problems, current and imminent, in a
// cluster (a probe) or a process (an examination), and suggests fixes.
package doctor
