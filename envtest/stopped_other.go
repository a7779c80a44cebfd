//go:build unix && !linux

package envtest

func awaitStop(int) error { return nil }
