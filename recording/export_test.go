package recording

import (
	"io"
	"log/slog"
)

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// breakFile closes the file without the recorder's knowledge, so every write fails.
func (r *Recorder) breakFile() { r.ring.file.Close() }
