// Package churn implements the churn command, which reports who changes which fields, and how much predicates
// and Keep would save. It keeps the last state of each object in packed form, in a bounded amount of memory,
// and counts a bounded number of names.
package churn
