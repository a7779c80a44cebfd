// Package results defines informer-bench's results file and the targets for the figures in it.
//
// # Usage
//
//	r, err := results.Load("bench.json")
//	for _, v := range r.Check(results.Targets()) {
//		fmt.Println(v)
//	}
//
// # Guarantees
//
// [Load] reads every file that [Results.Save] writes. Equal results produce equal bytes. In version 1 of the
// schema, fields may be added but never changed or removed.
//
// # Concurrency
//
// All types are plain data.
//
// # Failure
//
// Load rejects files with a different schema version or with ambiguous results. A target without figures in
// the file is neither met nor missed, and its verdict is "not measured".
//
// # Debugging
//
// The file is indented JSON with sorted keys, so it is easy to read and diff.
package results
