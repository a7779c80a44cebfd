// Package recording records the responses that a client received, to turn a bug report
// into a test.
//
// # Usage
//
// A process records what its informers receive:
//
//	recorder, err := recording.Create("/var/tmp/shop.recording", recording.Options{})
//	defer recorder.Close()
//	cfg.Recorder = recorder // before the client or the manager is created
//
// Anyone who has the file can replay it to the same informers elsewhere:
//
//	file, err := recording.Open("testdata/shop.recording")
//	defer file.Close()
//	client, err := rest.NewClient(&config.Config{Replay: file.Replay(recording.ReplayOptions{})}, scheme.New())
//
// In tests, controllertest.Replay does that in virtual time. The command informer-debug records and
// replays on its own, and fetches the recording of a running program: [Recorder.Tail] reads the file
// while it is being written, and [Save] stores it elsewhere.
//
// # Contents
//
// A recording contains only lists and watches of collections. For each, it holds the path, the
// parameters of lists and watches, and the Accept header; the status, content type and Retry-After of
// the response; the body, in the parts that were read, with times; and how it ended. Other requests,
// such as reviews and token requests, are not recorded. If a request is redirected, the recording holds
// only the final response.
//
// Credentials are not recorded: the recorder sits above the layer that adds them, and overwrites those
// that a response echoes. A compressed body that the client did not unpack is left out, since it cannot
// be searched for credentials. For Secrets, the recording holds only the requests, times and sizes. It
// leaves out their bodies entirely, even if only metadata was requested, since annotations often repeat
// the contents, and since no server sends a partly redacted body. All other objects are recorded as they
// are, so protect the file as you protect the objects.
//
// # File format
//
//	"millrace recording 1\n"
//	block
//	...
//
// A block consists of its length, its unpacked length, a checksum, and the bytes, in
// S2. The checksum (CRC-32C) covers all of these and all earlier blocks. A block holds
// records: a kind, the number of a request, the time since the beginning, and data that
// depends on the kind. The last record says that the recording was closed.
//
// # Guarantees
//
// Replayed in virtual time, a recording leads an informer with the same options through the same states,
// events and failures in the same order (D02) and at the same times. Everything is replayed in the order
// of arrival, across all responses. The file is readable only by its owner and never exceeds
// Options.MaxSize. Requests that are left out to keep the limit are counted. An informer can be replayed
// from any of its lists that remains. A crash loses at most the last second. The memory used to read a
// file is at most a small multiple of its size.
//
// A recording holds what the client received, not how it reacted. An informer of several namespaces
// reads and decodes each namespace separately. If a part of one response arrived while another was being
// decoded, which takes microseconds, the two raced for the cache; the replay delivers them in the order
// of arrival.
//
// # Concurrency
//
// Everything is safe for concurrent use. A Recorder has one goroutine, which compresses and writes;
// Close waits for it. Recording never blocks the client. It copies bytes into memory, at most 32 MiB of
// them.
//
// # Failure
//
// A full or slow disk ends the recording and affects nothing else. Status.Err and
// Options.Logger report it. An [*Error] names the file and offset and wraps ErrDamaged,
// ErrCutOff, ErrVersion, ErrBehind, ErrTaken or an error of the system. A replay
// answers unrecorded requests with an [*UnrecordedError].
//
// # Debugging
//
// The command informer-debug replay FILE shows the contents of a file.
package recording
