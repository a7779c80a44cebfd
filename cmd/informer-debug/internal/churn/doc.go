// Package churn is the verb churn: who changes what, and what predicates and Keep would spare. It
// holds the last state of each object, packed and bounded, and counts under a bounded number of
// names.
package churn
