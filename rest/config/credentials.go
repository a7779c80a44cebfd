package config

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// reloadInterval is how long the content of a credential file is trusted before
// it is read again. The kubelet replaces a token when 80% of its life is over,
// so an hour's token is still good for 12 minutes.
const reloadInterval = time.Minute

// credential is what one request is authenticated with. Two are the same
// credential exactly if they are equal.
type credential struct {
	authorization string           // the value of the Authorization header, or empty
	certificate   *tls.Certificate // from an exec plugin, or nil
}

// credentialSource hands out credentials. It is safe for concurrent use.
type credentialSource interface {
	// get returns the credential to use now. It may take long, or fail with the
	// cause of ctx.
	get(ctx context.Context) (credential, error)

	// renew is told that the server answered 401 to refused. It returns the
	// credential to use instead, which is refused itself if there is no other.
	renew(ctx context.Context, refused credential) (credential, error)
}

// newCredentialSource picks the source by the precedence that Config documents.
func newCredentialSource(c *Config) (credentialSource, error) {
	switch {
	case c.BearerTokenFile != "":
		f := &tokenFile{path: c.BearerTokenFile, log: c.logger(), token: c.BearerToken}
		return f, f.read()
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

// staticCredential never changes.
type staticCredential credential

func (s staticCredential) get(context.Context) (credential, error) { return credential(s), nil }

func (s staticCredential) renew(context.Context, credential) (credential, error) {
	return credential(s), nil
}

// tokenFile follows a file with a bearer token. A token once read stays in use
// while the file cannot be read: it is being replaced, or the disk has trouble,
// and the server decides for how long the token is good.
type tokenFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex // guards the fields below, and one reading of the file at a time
	token   string
	checked time.Time // when the file was last read, or tried; zero to read it at once
}

func (f *tokenFile) get(context.Context) (credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checked.IsZero() || time.Since(f.checked) >= reloadInterval {
		if err := f.read(); err != nil {
			return credential{}, err
		}
	}
	return credential{authorization: "Bearer " + f.token}, nil
}

func (f *tokenFile) renew(ctx context.Context, refused credential) (credential, error) {
	f.mu.Lock()
	if refused.authorization == "Bearer "+f.token {
		f.checked = time.Time{}
	}
	f.mu.Unlock()
	return f.get(ctx)
}

// read is called with mu held, or before f is shared. It fails only if there is no token to fall back on.
func (f *tokenFile) read() error {
	f.checked = time.Now()
	data, err := ReadFile(f.path)
	token := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		err = fmt.Errorf("bearer token: %w", err) // names the file
	case token == "":
		err = fmt.Errorf("bearer token: the file %s is empty", f.path)
	case hasControl(token):
		err = fmt.Errorf("bearer token: the file %s holds more than one line or a control character", f.path)
	}
	if err == nil {
		f.token = token
		return nil
	}
	if f.token == "" {
		f.checked = time.Time{}
		return fmt.Errorf("%w: write the token to it", err)
	}
	f.log.Warn("the token file cannot be used: the last token stays in use", "error", err)
	return nil
}
