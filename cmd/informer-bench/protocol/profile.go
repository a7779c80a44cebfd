package protocol

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profiler writes a CPU profile of each stretch between two marks. A nil profiler writes
// nothing.
type profiler struct {
	dir  string
	file *os.File // that is being written; nil between stretches
}

// begin begins a stretch.
func (p *profiler) begin() error {
	if p == nil {
		return nil
	}
	file, err := os.CreateTemp(p.dir, "profile-")
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	p.file = file
	return nil
}

// end ends a stretch, if there is one, and names its profile after the mark.
func (p *profiler) end(scenario, mark string) error {
	if p == nil || p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	name := filepath.Join(p.dir, fmt.Sprintf("%s-%s-%d.pprof", scenario, mark, os.Getpid()))
	err := errors.Join(p.file.Close(), os.Rename(p.file.Name(), name))
	p.file = nil
	return err
}
