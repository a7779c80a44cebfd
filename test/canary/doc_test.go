// Package canary looks for secrets where they must not be. A program with every
// feature on is given tokens, keys, passwords and Secrets that can be recognised,
// and a world that is at fault in every way: servers and proxies that repeat what
// they were sent, broken answers, plugins that print their token, kubeconfigs with a
// token in the wrong place. Afterwards all that the program said is searched:
// errors at every level of wrapping, logs at the most verbose level, statuses,
// metrics, debug pages, events, goroutine dumps.
package canary
