// Package recording keeps what a client received, so that a bug report becomes a test.
//
// # Usage
//
// A process records what its informers receive:
//
//	recorder, err := recording.Create("/var/tmp/shop.recording", recording.Options{})
//	defer recorder.Close()
//	cfg.Recorder = recorder // before the client or the manager is made
//
// And anybody plays it again, to the same informers elsewhere:
//
//	file, err := recording.Open("testdata/shop.recording")
//	defer file.Close()
//	client, err := rest.NewClient(&config.Config{Replay: file.Replay(recording.ReplayOptions{})}, scheme.New())
//
// In tests, controllertest.Replay does that in virtual time. informer-debug records and
// replays without a program, and takes the recording of a running one: Recorder.Tail reads it
// while it is written, and Save keeps what was read elsewhere.
//
// # What is recorded
//
// Lists and watches of collections, and nothing else: for each its path, the parameters
// that lists and watches have, the Accept header; status, content type and Retry-After of the
// answer; each part of the body as one read returned it, and when; and how it ended.
// Everything else, such as reviews and requests for tokens, passes by. Of a redirect the
// recording has the answer that it led to.
//
// Credentials are not recorded: the recorder stands above what adds them, and where an answer
// repeats one, it is written over. A compressed body that the client has not unpacked is left
// out: nothing can be found in it. Of Secrets the recording has the requests, times and sizes.
// Their bodies are left out whole, also where only metadata is asked for, since annotations
// often repeat the rest; a body that is redacted in part would be one that no server sent.
// All other objects are recorded as they are: treat the file as you treat them.
//
// # A file
//
//	"millrace recording 1\n"
//	block
//	...
//
// A block is its length, the length of what it unpacks to, a checksum, and that many bytes in
// S2. The checksum (CRC-32C) is of all that and of the blocks before. A block holds records: a
// kind, the number of a request, the time since the beginning, and what the kind says. The
// last one says that the recording was closed.
//
// # Guarantees
//
// Played back in virtual time, a recording leads an informer through the same states, events
// and failures in the same order (D02), and at the same moments, if it has the options that it
// had. All that was received comes in the order in which it was received, whichever answer it
// belongs to. The file can be read by its owner alone, and grows no larger than Options.MaxSize. What
// had to be left out for that is counted, and an informer can be played from a list that is left.
// What was written a second ago survives a crash. A file is trusted with no more memory than a
// small multiple of its size.
//
// What is recorded is what came to the client, not what it did then. An informer of several
// namespaces reads and decodes each on its own. Where one part of an answer came while another
// was being decoded, which takes microseconds, the two raced for the cache. They come again in
// the order in which they came.
//
// # Concurrency
//
// Everything is safe for concurrent use. A Recorder has one goroutine, which compresses and
// writes; Close waits for it. Who is recorded waits for neither: bytes are copied into memory,
// 32 MiB at most.
//
// # Failure
//
// A full disk, or one that is too slow, ends the recording, and nothing else. Status.Err and
// Options.Logger say so. An *Error names file and offset and wraps ErrDamaged, ErrCutOff,
// ErrVersion, ErrBehind or ErrTaken, or what the system says. A replay answers what was not
// recorded with an *UnrecordedError.
//
// # Debugging
//
// informer-debug replay FILE shows what is in one.
package recording
