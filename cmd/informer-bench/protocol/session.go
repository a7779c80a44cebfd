package protocol

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Session is the contestant's side of a conversation with the harness. Only the goroutine that runs the
// scenario may use it.
type Session struct {
	Start

	// Metrics contains the metrics measured so far in the scenario.
	Metrics map[string]float64

	in  *json.Decoder
	out io.Writer
	// Began is when the harness acknowledged the mark begin.
	Began time.Time

	before uint64 // heap in use before the work

	profiler *profiler
}

// Work runs one scenario and returns its result. The objects being measured must stay reachable until after
// the call to Session.Live.
type Work func(ctx context.Context, s *Session) (*Result, error)

// Main is the main function of a contestant. If the scenario fails, Main reports the error to the harness and
// exits with status 1.
//
// If the environment variable INFORMER_BENCH_PROFILE is set to a directory, Main writes CPU profiles there:
// one for each interval between two marks, called SCENARIO-MARK-PID.pprof. MARK is the mark at the end of the
// interval, or "end" for the last one. Use profiles to investigate a contestant, not to compare contestants.
func Main(scenarios map[string]Work) {
	if err := Serve(context.Background(), os.Stdin, os.Stdout, scenarios); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// NewSession returns the contestant's side of a conversation in which work is about to start. It reads the
// harness's responses from in and writes to out.
func NewSession(start Start, in io.Reader, out io.Writer) *Session {
	return &Session{Start: start, in: json.NewDecoder(bufio.NewReader(in)), out: out}
}

// Serve handles one conversation.
func Serve(ctx context.Context, in io.Reader, out io.Writer, scenarios map[string]Work) error {
	s := NewSession(Start{}, in, out)
	if err := s.say(Event{Event: EventReady}); err != nil {
		return err
	}
	if err := s.in.Decode(&s.Start); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return fmt.Errorf("read the start: %w", err)
	}
	work := scenarios[s.Scenario]
	if work == nil {
		return s.fail(fmt.Errorf("scenario %q %s", s.Scenario, NotKnown))
	}
	if dir := os.Getenv("INFORMER_BENCH_PROFILE"); dir != "" {
		s.profiler = &profiler{dir: dir}
	}
	s.before = HeapInUse()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result, err := work(ctx, s)
	err = errors.Join(err, s.profiler.end(s.Scenario, "end"))
	if err != nil {
		return s.fail(fmt.Errorf("%s: %w", s.Scenario, err))
	}
	return s.say(Event{Event: EventResult, Result: result})
}

// Mark asks the harness to read the clocks, and waits until it has done so.
func (s *Session) Mark(name string) error {
	if err := s.profiler.end(s.Scenario, name); err != nil {
		return err
	}
	if err := s.say(Event{Event: EventMark, Name: name}); err != nil {
		return err
	}
	var answer struct{ Go bool }
	if err := s.in.Decode(&answer); err != nil {
		return fmt.Errorf("wait for the harness at mark %s: %w", name, err)
	}
	if name == MarkBegin {
		s.Began = time.Now()
	}
	return s.profiler.begin()
}

// Live returns the heap in use after two collections, minus the heap in use before the work.
func (s *Session) Live() int64 { return int64(HeapInUse()) - int64(s.before) }

// HeapInUse returns the heap in use after two collections, in bytes.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC() // frees memory that only finalizers and pools keep alive
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Mallocs returns the number of allocations made by the process so far.
func Mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func (s *Session) fail(err error) error {
	return errors.Join(err, s.say(Event{Event: EventError, Error: err.Error()}))
}

func (s *Session) say(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if _, err := s.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("tell the harness: %w", err)
	}
	return nil
}
