package rest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxWarnings bounds how many different warnings are remembered. When there are
// more the memory starts afresh, so that old ones may be logged once more.
const maxWarnings = 1000

// maxWarning bounds the text of one, in bytes. The API server cuts those of webhooks
// at 4 KiB for all together.
const maxWarning = 4 << 10

// maxAnswerWarnings bounds how many warnings of one answer are read. The API server sends a few.
const maxAnswerWarnings = 20

// moreWarnings stands for the others of an answer.
const moreWarnings = "the answer has more warnings, which are not shown"

// warningLog logs the warnings of the server (RFC 7234, section 5.5; only code
// 299 comes from the API), each text once. The zero value is ready.
type warningLog struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (w *warningLog) report(ctx context.Context, log *slog.Logger, what string, headers []string, conceal func(string) string) {
	if len(headers) == 0 {
		return
	}
	// To read a text takes its backslashes out, so that a credential that was quoted in
	// another way is no longer known.
	shown := slices.Clone(headers[:min(len(headers), maxAnswerWarnings)])
	for i, header := range shown {
		shown[i] = conceal(header)
	}
	// A malformed header has no text to show, and is not the caller's trouble.
	warnings, _ := utilnet.ParseWarningHeaders(shown)
	more := len(headers) > maxAnswerWarnings || len(warnings) > maxAnswerWarnings
	for _, warning := range warnings[:min(len(warnings), maxAnswerWarnings)] {
		if warning.Code != 299 || warning.Text == "" {
			continue
		}
		w.log(ctx, log, what, shortened(conceal(warning.Text)))
	}
	if more {
		w.log(ctx, log, what, moreWarnings)
	}
}

// log logs a text that is new.
func (w *warningLog) log(ctx context.Context, log *slog.Logger, what, text string) {
	if w.isNew(text) {
		log.LogAttrs(ctx, slog.LevelWarn, text, slog.String("source", "API server"), slog.String("request", what))
	}
}

// shortened cuts a warning, which the memory of those that were logged holds.
func shortened(text string) string {
	if len(text) > maxWarning {
		return strings.ToValidUTF8(text[:maxWarning], "") + "..."
	}
	return text
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
