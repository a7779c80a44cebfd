package dependency

// allowed are the licences that a dependency may have, by their SPDX identifiers,
// each with the reason why a program under the Apache License 2.0 may contain it.
var allowed = map[string]string{
	"Apache-2.0":   "our own",
	"MIT":          "asks for its notice only",
	"BSD-2-Clause": "asks for its notice only",
	"BSD-3-Clause": "asks for its notice only, and that its authors are not named as endorsers",
	"ISC":          "asks for its notice only",
}

// judged are files that a person has read because their licence is none of those,
// or was not recognised. Each is named by its module and its path in it, with the
// reason why it may be there. A judgement is about one module and what it is used
// for: that a licence is here does not allow it elsewhere.
var judged = map[string]string{
	"codeberg.org/go-fonts/liberation/LICENSE-SIL": "OFL-1.1 is for the fonts, which may be shipped with any program; bench/report draws with them",
	"github.com/ajstarks/svgo/LICENSE":             "CC-BY-4.0 asks for its notice, and for a note of changes, of which there are none; bench/report draws with it",
	"github.com/ajstarks/svgo/LICENSE-link.txt":    "a link to the text of CC-BY-4.0",
	"github.com/golang/freetype/LICENSE":           "the FreeType License or the GPL, as one likes: the former is like BSD, with a credit; bench/report draws with it",

	// What only the real API server needs, which test/kube builds for the tests.
	"github.com/cyphar/filepath-securejoin/COPYING.md":      "says which files are under BSD-3-Clause and which under MPL-2.0",
	"github.com/cyphar/filepath-securejoin/LICENSE.MPL-2.0": "asks that changes to its own files be published, of which there are none",
	"github.com/opencontainers/go-digest/LICENSE.docs":      "CC-BY-SA-4.0 is for its documentation, which is in no build",
}
