// Package cbor reads CBOR objects, each found by package frame: their identity and the
// two fields of a watch event by itself, everything else with apimachinery's codec.
package cbor
