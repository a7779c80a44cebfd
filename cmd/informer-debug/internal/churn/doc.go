// Package churn implements the verb churn: who changes what, and how much predicates and Keep would save. It holds the
// last state of each object, packed and bounded, and counts under a bounded number of names.
package churn
