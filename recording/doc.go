// Package recording records the responses a client receives, to turn a bug report into a test.
//
// # Usage
//
// A process records the responses its informers receive:
//
//	recorder, err := recording.Create("/var/tmp/shop.recording", recording.Options{})
//	defer recorder.Close()
//	cfg.Recorder = recorder // before the client or the manager is created
//
// Anyone with the file can replay it to the same informers elsewhere:
//
//	file, err := recording.Open("testdata/shop.recording")
//	defer file.Close()
//	client, err := rest.NewClient(&config.Config{Replay: file.Replay(recording.ReplayOptions{})}, scheme.New())
//
// In tests, use controllertest.Replay, which replays in virtual time. The informer-debug command can
// make and replay recordings itself, and fetch the recording of a running program: [Recorder.Tail] reads
// the file while it is being written, and [Save] stores it elsewhere.
//
// # Contents
//
// A recording contains only lists and watches of collections. Each is stored with its path, list and watch
// parameters, and Accept header; the response's status, content type and Retry-After; the body, in the chunks
// in which it was read, with timestamps; and how it ended. Other requests, such as reviews and token
// requests, are not recorded. If a request is redirected, only the final response is recorded.
//
// Credentials are not recorded: the recorder sits above the layer that adds them, and overwrites any
// that are echoed in a response. A compressed body that the client did not decompress is omitted, since it
// cannot be searched for credentials. For Secrets, only requests, times and sizes are recorded. Their bodies
// are omitted entirely, even for metadata-only requests: annotations often repeat the contents, and no real
// server sends a partially redacted body. All other objects are recorded verbatim, so protect the file as
// carefully as the objects.
//
// # File format
//
//	"millrace recording 1\n"
//	block
//	...
//
// A block consists of its length, its uncompressed length, a checksum, and the data, compressed with S2.
// The checksum (CRC-32C) covers all of these and all preceding blocks. The data is a sequence of
// records, each with a kind, a request number, the time since the start of the recording, and a payload
// that depends on the kind. The last record marks the recording as closed.
//
// # Guarantees
//
// When a recording is replayed in virtual time, an informer with the same options goes through the same
// states, events and failures, in the same order (D02) and at the same times. Data is replayed in order of
// arrival across all responses. The file is readable only by its owner and never exceeds Options.MaxSize.
// Requests dropped to stay within the limit are counted. An informer can be replayed from any of its lists
// that is still in the file. A crash loses at most the last second. Reading a file takes at most a small
// multiple of its size in memory.
//
// A recording contains the data the client received, not how the client reacted. An informer for several
// namespaces reads and decodes each namespace separately. If data for one namespace arrived during the few
// microseconds in which data for another was being decoded, either could have reached the cache first; the
// replay delivers them in order of arrival.
//
// # Concurrency
//
// All types are safe for concurrent use, except [Tail]. A Recorder has one goroutine, which compresses
// and writes; Close waits for it. Recording never blocks the client: it buffers up to 32 MiB in memory.
//
// # Failure
//
// A full or slow disk ends the recording but affects nothing else. The failure is reported by Status.Err
// and logged to Options.Logger. An [*Error] contains the path and offset, and wraps [ErrDamaged],
// [ErrCutOff], [ErrVersion], [ErrBehind], [ErrTaken] or an error from the operating system. A replay
// fails unrecorded requests with an [*UnrecordedError].
//
// # Debugging
//
// Run informer-debug replay FILE to see the contents of a file.
package recording
