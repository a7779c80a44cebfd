package rest

import (
	"context"
	"log/slog"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxWarnings bounds how many different warnings are remembered. When there are
// more the memory starts afresh, so that old ones may be logged once more.
const maxWarnings = 1000

// warningLog logs the warnings of the server (RFC 7234, section 5.5; only code
// 299 comes from the API), each text once. The zero value is ready.
type warningLog struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (w *warningLog) report(ctx context.Context, log *slog.Logger, what string, headers []string) {
	if len(headers) == 0 {
		return
	}
	// A malformed header has no text to show, and is not the caller's trouble.
	warnings, _ := utilnet.ParseWarningHeaders(headers)
	for _, warning := range warnings {
		if warning.Code == 299 && warning.Text != "" && w.isNew(warning.Text) {
			log.LogAttrs(ctx, slog.LevelWarn, warning.Text, slog.String("source", "API server"), slog.String("request", what))
		}
	}
}

func (w *warningLog) isNew(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[text] {
		return false
	}
	if w.seen == nil || len(w.seen) >= maxWarnings {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	return true
}
