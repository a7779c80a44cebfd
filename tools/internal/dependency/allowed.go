package dependency

// allowed lists the licences a dependency may have, by SPDX identifier. The value is the reason a program
// under the Apache License 2.0 may contain such a dependency.
var allowed = map[string]string{
	"Apache-2.0":   "our own",
	"MIT":          "requires only its notice",
	"BSD-2-Clause": "requires only its notice",
	"BSD-3-Clause": "requires only its notice, and forbids naming its authors as endorsers",
	"ISC":          "requires only its notice",
}

// judged lists files that were reviewed manually because their licence is not in allowed, or was not
// recognised. Each entry gives the module and the file's path in it, with the reason the licence is
// acceptable. An entry applies to one module and its use, and does not allow the licence elsewhere.
var judged = map[string]string{
	"codeberg.org/go-fonts/liberation/LICENSE-SIL": "OFL-1.1 covers the fonts, which may be shipped with any program; bench/report draws with them",
	"github.com/ajstarks/svgo/LICENSE":             "CC-BY-4.0 requires its notice, and a note of changes; there are none; bench/report draws with it",
	"github.com/ajstarks/svgo/LICENSE-link.txt":    "a link to the text of CC-BY-4.0",
	"github.com/golang/freetype/LICENSE":           "a choice of the FreeType License or the GPL: the former is like BSD, with a credit; bench/report draws with it",

	// These are only needed for the real API server, which test/kube builds for the tests.
	"github.com/cyphar/filepath-securejoin/COPYING.md":      "says which files are under BSD-3-Clause and which under MPL-2.0",
	"github.com/cyphar/filepath-securejoin/LICENSE.MPL-2.0": "requires publishing changes to its own files; there are none",
	"github.com/opencontainers/go-digest/LICENSE.docs":      "CC-BY-SA-4.0 covers its documentation, which is not built",
}
