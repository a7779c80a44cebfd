// Package churn implements the churn command, which reports who changes which fields, and how much
// predicates and Keep would save. It keeps the last state of each object in packed form. Memory use is
// bounded, and so is the number of names counted.
package churn
