package serving

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/internal/reading"
)

// If reading a certificate file hangs, the last certificate is served.
func TestLastCertificateIsServedWhileAFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		file := reading.File{What: "certificate", Path: filepath.Join(t.TempDir(), "tls.crt")}
		require.NoError(t, os.WriteFile(file.Path, []byte("old"), 0o600))
		f, err := follow(logger, func(files [][]byte) (string, error) { return string(files[0]), nil }, file)
		require.NoError(t, err)
		answer := make(chan string)
		f.from = reading.New(logger, []reading.File{file}, func(string) ([]byte, error) { return []byte(<-answer), nil }, f.take)
		time.Sleep(lookInterval)
		start := time.Now()
		for range 3 {
			require.Equal(t, "old", f.get())
		}
		require.Equal(t, reading.Patience, time.Since(start))
		require.Contains(t, log.String(), file.String())
		answer <- "new"
		synctest.Wait()
		require.Equal(t, "new", f.get())
	})
}
