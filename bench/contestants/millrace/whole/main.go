// Command whole measures Millrace with caches that keep whole objects.
package main

import "github.com/millrace-dev/millrace/bench/contestants/millrace"

func main() { millrace.Stack{}.Main() }
