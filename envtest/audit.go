package envtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// AuditLevel controls how much of each request is logged; see
// https://kubernetes.io/docs/tasks/debug/debug-cluster/audit.
type AuditLevel string

// Audit log levels.
const (
	AuditMetadata        AuditLevel = "Metadata"        // the user, the request and the response code
	AuditRequest         AuditLevel = "Request"         // AuditMetadata plus the object in the request
	AuditRequestResponse AuditLevel = "RequestResponse" // AuditRequest plus the object in the response
)

// AuditEvent is a request logged by the API server.
type AuditEvent struct {
	Stage      string // ResponseStarted for an open watch, ResponseComplete, or Panic
	Verb       string
	RequestURI string
	UserAgent  string
	User       struct {
		Username string
		Groups   []string
	}
	ObjectRef struct{ APIGroup, APIVersion, Resource, Subresource, Namespace, Name string }

	ResponseStatus struct {
		Code    int
		Reason  string
		Message string
	}
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
	RequestObject            json.RawMessage // with AuditRequest and above
	ResponseObject           json.RawMessage // with AuditRequestResponse
}

// auditTo configures the server's audit log.
func (s *Server) auditTo(level AuditLevel) error {
	if level == "" {
		return nil
	}
	policy := filepath.Join(s.dir, "audit.yaml")
	text := fmt.Sprintf("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: %q\n", level)
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		return fmt.Errorf("envtest: %w", err)
	}
	s.AuditLog = filepath.Join(s.dir, "audit.log")
	// Insert these before Options.Flags. The size is in megabytes, and large enough for the log to
	// be a single file; zero means 100 in some versions.
	s.args = slices.Insert(s.args, slices.Index(s.args, "--")+1,
		"--audit-policy-file="+policy, "--audit-log-path="+s.AuditLog, "--audit-log-maxsize=1000000")
	return nil
}

// endLine removes an incomplete last line, left behind by a killed server, from the audit log, so that the
// next event starts on a new line.
func (s *Server) endLine() error {
	if s.AuditLog == "" {
		return nil
	}
	f, err := os.OpenFile(s.AuditLog, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	for part := make([]byte, 64<<10); end > 0; {
		part = part[:min(end, int64(cap(part)))]
		if _, err := f.ReadAt(part, end-int64(len(part))); err != nil {
			return err
		}
		if n := bytes.LastIndexByte(part, '\n'); n >= 0 {
			return f.Truncate(end - int64(len(part)) + int64(n) + 1)
		}
		end -= int64(len(part))
	}
	return f.Truncate(0)
}

// AuditEvents returns the events in the audit log, oldest first. An event is logged before its response is
// complete. AuditEvents omits events that the server is still writing, or was writing when it was killed.
// The log is a single file of unlimited size unless Options.Flags contains --audit-log-maxsize, in which
// case events in rotated files are omitted as well.
func (s *Server) AuditEvents() ([]AuditEvent, error) {
	if s.AuditLog == "" {
		return nil, errors.New("envtest: the server has no audit log: set Options.Audit")
	}
	text, err := os.ReadFile(s.AuditLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("envtest: read the audit log: %w", err)
	}
	var events []AuditEvent
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the server is still writing it
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("envtest: read the audit log: event %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, nil
}
