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

// AuditLevel is how much of a request is logged: see
// https://kubernetes.io/docs/tasks/debug/debug-cluster/audit.
type AuditLevel string

// The levels of the audit log.
const (
	AuditMetadata        AuditLevel = "Metadata"        // who asked for what, and the answer's code
	AuditRequest         AuditLevel = "Request"         // also the object in the request
	AuditRequestResponse AuditLevel = "RequestResponse" // also the object in the answer
)

// AuditEvent is a request as the API server has logged it.
type AuditEvent struct {
	Stage      string // ResponseStarted for a watch that goes on, ResponseComplete, or Panic
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
	RequestObject            json.RawMessage // from AuditRequest on
	ResponseObject           json.RawMessage // with AuditRequestResponse
}

// auditTo has the server write an audit log.
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
	// Before those of Options.Flags. In megabytes, so one file it is; zero means 100 in some versions.
	s.args = slices.Insert(s.args, slices.Index(s.args, "--")+1,
		"--audit-policy-file="+policy, "--audit-log-path="+s.AuditLog, "--audit-log-maxsize=1000000")
	return nil
}

// endLine takes away from the audit log what a server that was killed has written half of a
// line, so that the next one does not go on in the middle of it.
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

// AuditEvents returns what is in the audit log, the oldest first. An event is in it
// before its request is answered whole. One that the server is still writing is left out, and
// so is one that it was writing when it was killed. The log is one file, however large, unless
// Options.Flags has --audit-log-maxsize: then what is in files of before is left out.
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
			break // the server is writing it
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("envtest: read the audit log: event %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, nil
}
