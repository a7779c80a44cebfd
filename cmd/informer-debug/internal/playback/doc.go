// Package playback replays a recording in place of a cluster. It finds the recorded informers and their
// scopes, sets the speed, and waits for the end.
package playback
