package protocol

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profiler writes a CPU profile for each interval between marks. A nil profiler does nothing.
type profiler struct {
	dir  string
	file *os.File // the current profile; nil between intervals
}

// begin starts an interval.
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

// end ends the current interval, if any, and saves its profile under the mark's name.
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
