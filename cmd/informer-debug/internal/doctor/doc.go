// Package doctor implements the doctor command. It diagnoses current and imminent problems in a cluster (a
// probe) or a process (an examination), and suggests fixes.
package doctor
