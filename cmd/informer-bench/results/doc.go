// Package results defines the results file of informer-bench, and the targets for its figures.
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
// [Load] reads every file that [Results.Save] writes. Equal results produce equal bytes. Version 1 of the
// schema may only gain fields.
//
// # Concurrency
//
// All types are plain values.
//
// # Failure
//
// Load rejects files of another version and files with ambiguous results. A target without figures in the
// file is neither met nor missed: its verdict says that it was not measured.
//
// # Debugging
//
// The file is indented JSON with sorted names, easy to read and compare.
package results
