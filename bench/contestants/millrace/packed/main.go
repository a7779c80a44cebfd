// Command packed measures Millrace with packed caches.
package main

import (
	"github.com/millrace-dev/millrace/bench/contestants/millrace"
	"github.com/millrace-dev/millrace/sharedinformer"
)

func main() { millrace.Stack{Store: sharedinformer.Packed}.Main() }
