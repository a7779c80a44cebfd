// Package canary looks for secrets in places where they must not be. A program with every feature
// enabled gets tokens, keys, passwords and Secrets that can be recognised, and an environment with
// all kinds of faults: servers and proxies that repeat their input, broken answers, plugins that
// print their token, kubeconfigs with a token in the wrong field. Afterwards the test searches all
// output of the program: errors at every level of wrapping, logs at the most verbose level,
// statuses, metrics, debug pages, events, goroutine dumps.
package canary
