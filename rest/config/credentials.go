package config

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/reading"
)

// reloadInterval is how long a credential file's content is used before the file is reread. The kubelet
// replaces a token at 80% of its lifetime, at which point a one-hour token remains valid for another 12
// minutes.
const reloadInterval = time.Minute

// credential authenticates a request. Equal values represent the same credential.
type credential struct {
	authorization string           // the Authorization header; may be empty
	certificate   *tls.Certificate // from an exec plugin, or nil
}

// credentialSource provides credentials. It is safe for concurrent use.
type credentialSource interface {
	// get returns the current credential. It may block. If ctx is done, it fails with its cause.
	get(ctx context.Context) (credential, error)

	// renew is called after the server responded to refused with 401. It returns the credential to use
	// instead, or refused itself if there is no other.
	renew(ctx context.Context, refused credential) (credential, error)
}

// newCredentialSource selects the source in the order documented at [Config].
func newCredentialSource(c *Config) (credentialSource, error) {
	switch {
	case c.BearerTokenFile != "":
		f := newTokenFile(c)
		return f, f.file.Wait(context.Background()) // before the first request
	case c.BearerToken != "":
		return staticCredential{authorization: "Bearer " + c.BearerToken}, nil
	case c.Username != "":
		pair := base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
		return staticCredential{authorization: "Basic " + pair}, nil
	case c.Exec != nil:
		return newExecSource(c), nil
	}
	return staticCredential{}, nil
}

// staticCredential is a credential that never changes.
type staticCredential credential

func (s staticCredential) get(context.Context) (credential, error) { return credential(s), nil }

func (s staticCredential) renew(context.Context, credential) (credential, error) {
	return credential(s), nil
}

// tokenFile reads a bearer token from a file that may change. While the file is unreadable, the last token
// remains in use: the file may be in the middle of being replaced, and the server decides how long the token
// is valid.
type tokenFile struct {
	path string
	log  *slog.Logger
	file *reading.Files

	mu      sync.Mutex // guards the fields below
	token   string
	checked time.Time // when the file was last read, or an attempt failed
}

func newTokenFile(c *Config) *tokenFile {
	f := &tokenFile{path: c.BearerTokenFile, log: c.logger(), token: c.BearerToken}
	f.file = reading.New(f.log, []reading.File{{What: "bearer token", Path: f.path}}, ReadFile, f.take)
	return f
}

func (f *tokenFile) get(ctx context.Context) (credential, error) {
	cred, checked := f.current()
	if time.Since(checked) < reloadInterval {
		return cred, nil
	}
	if err := f.file.Try(ctx); err != nil && !errors.Is(err, reading.ErrSlow) {
		return credential{}, err
	}
	cred, _ = f.current()
	return cred, nil
}

// renew fails if reading the file hangs, so that the error mentions the file instead of blaming the token.
func (f *tokenFile) renew(ctx context.Context, refused credential) (credential, error) {
	cred, _ := f.current()
	if cred != refused {
		return f.get(ctx)
	}
	if err := f.file.Again(ctx); err != nil {
		return credential{}, err
	}
	cred, _ = f.current()
	return cred, nil
}

func (f *tokenFile) current() (cred credential, checked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return credential{authorization: "Bearer " + f.token}, f.checked
}

// take is called with the file's content or the read error. It fails only if there is no earlier token to
// use.
func (f *tokenFile) take(contents [][]byte, err error) error {
	token := ""
	if err == nil {
		token = strings.TrimSpace(string(contents[0]))
	}
	switch {
	case err != nil:
	case token == "":
		err = fmt.Errorf("bearer token: the file %s is empty", f.path)
	case hasControl(token):
		err = fmt.Errorf("bearer token: the file %s contains more than one line or a control character", f.path)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = time.Now()
	switch {
	case err == nil:
		f.token = token
	case f.token == "":
		return fmt.Errorf("%w: write the token to it", err)
	default:
		f.log.Warn("the token file cannot be used: the last token stays in use", "error", err)
	}
	return nil
}
